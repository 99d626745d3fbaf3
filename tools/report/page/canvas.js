/* SPDX-License-Identifier: Apache-2.0
 * The canvas: colours, coordinates, texts, and the axes that pictures share. */
const canvas = document.getElementById('canvas');
const paper = canvas.getContext('2d');
const MARGIN = { left: 100, top: 30, right: 26, bottom: 46 };
const FONT = '12px system-ui, sans-serif', SMALL_FONT = '11px system-ui, sans-serif';
let colours = {}, box = { left: 0, top: 0, width: 1, height: 1 };

function readColours()
{
	const style = getComputedStyle(document.documentElement);

	for (const name of ['paper', 'ink', 'faint', 'line', 'alarm', 'held', 'pending', 'dim', 'focus'])
		colours[name] = style.getPropertyValue('--' + name).trim();
	colours.layer = Array.from({ length: OTHER + 1 }, (_, i) => style.getPropertyValue('--l' + i).trim());
}

function fit()
{
	const ratio = window.devicePixelRatio || 1, stage = canvas.parentElement;
	const width = Math.max(200, stage.clientWidth), height = Math.max(160, stage.clientHeight);

	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	paper.setTransform(ratio, 0, 0, ratio, 0, 0);
	box = { left: MARGIN.left, top: MARGIN.top, width: width - MARGIN.left - MARGIN.right,
		height: height - MARGIN.top - MARGIN.bottom };
}

/* ---- coordinates: y grows upward but in maps, which are read like a page ---- */

function toX(x) { return box.left + box.width * (x - view.x0) / (view.x1 - view.x0); }
function fromX(px) { return view.x0 + (px - box.left) / box.width * (view.x1 - view.x0); }
function toY(y)
{
	const share = (y - view.y0) / (view.y1 - view.y0);

	return box.top + box.height * (state.kind === 'map' ? share : 1 - share);
}
function fromY(py)
{
	const share = (py - box.top) / box.height;

	return view.y0 + (state.kind === 'map' ? share : 1 - share) * (view.y1 - view.y0);
}

function text(string, x, y, align, colour, font)
{
	paper.font = font || FONT;
	paper.fillStyle = colour || colours.ink;
	paper.textAlign = align;
	paper.fillText(string, x, y);
}

function line(x0, y0, x1, y1, colour, dash)
{
	paper.strokeStyle = colour;
	paper.lineWidth = 1;
	paper.setLineDash(dash || []);
	paper.beginPath();
	paper.moveTo(x0, y0);
	paper.lineTo(x1, y1);
	paper.stroke();
	paper.setLineDash([]);
}

function inside(drawing)
{
	paper.save();
	paper.beginPath();
	paper.rect(box.left, box.top, box.width, box.height);
	paper.clip();
	drawing();
	paper.restore();
}

/* ---- axes ---- */

function digits(value, step)
{
	const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step) - 1e-9)));

	return value.toFixed(decimals);
}

function drawTimeAxis()
{
	const span = view.x1 - view.x0;
	const unit = data.axis.time ? timeUnit(span) : ['events', 1];
	const counts = !data.axis.time || !data.axis.clock;
	let step = niceStep(span / unit[1], Math.max(2, box.width / 110));

	if (counts)
		step = Math.max(1, step);
	const bottom = box.top + box.height;
	for (let i = Math.ceil(view.x0 / unit[1] / step - 1e-9); i * step * unit[1] <= view.x1; i++) {
		const x = toX(i * step * unit[1]);
		line(x, bottom, x, bottom + 5, colours.ink);
		text(counts ? count(i * step) : digits(i * step, step), x, bottom + 18, 'center');
	}
	text(data.axis.time ? 'time (' + unit[0] + ')' : 'events', box.left + box.width / 2, bottom + 37, 'center',
	     colours.faint);
	line(box.left, bottom, box.left + box.width, bottom, colours.ink);
	line(box.left, box.top, box.left, bottom, colours.ink);
}

function drawByteAxis()
{
	let power = 0, top = view.y1;

	for (; top >= 1024 && power < 6; power++)
		top /= 1024;
	const size = Math.pow(1024, power), step = niceStep((view.y1 - view.y0) / size, Math.max(2, box.height / 70));
	for (let i = Math.ceil(view.y0 / size / step - 1e-9); i * step * size <= view.y1; i++) {
		const y = toY(i * step * size);
		paper.globalAlpha = 0.35;
		line(box.left, y, box.left + box.width, y, colours.line);
		paper.globalAlpha = 1;
		text(digits(i * step, step), box.left - 8, y + 4, 'right');
	}
	sideways('memory (' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][power] + ')');
}

function sideways(string)
{
	paper.save();
	paper.translate(16, box.top + box.height / 2);
	paper.rotate(-Math.PI / 2);
	text(string, 0, 0, 'center', colours.faint);
	paper.restore();
}

/* A dashed line from top to bottom, and what it is, above. */
function drawMoment(x, label, colour, taken)
{
	const px = toX(x);

	if (px < box.left - 1 || px > box.left + box.width + 1)
		return;
	line(px, box.top, px, box.top + box.height, colour, [5, 4]);
	paper.font = FONT;
	const half = paper.measureText(label).width / 2;
	const at = Math.min(Math.max(px, box.left + half), box.left + box.width - half);
	if (taken.some(([from, to]) => at - half < to + 8 && at + half > from - 8))
		return;
	taken.push([at - half, at + half]);
	text(label, at, box.top - 10, 'center', colour);
}

function drawMoments()
{
	const taken = [];

	if (data.oom)
		drawMoment(data.oom.x, (data.oom.reason === 'recorded' ? 'recorded failure: ' : 'out of memory: ') + bytes(data.oom.requested) + ' requested', colours.alarm, taken);
	drawMoment(data.peak.x, 'peak live ' + bytes(data.peak.live), colours.ink, taken);
	maps.forEach((map, i) => {
		if (i === state.when && map.x !== data.peak.x && !(data.oom && map.x === data.oom.x))
			drawMoment(map.x, map.name, colours.faint, taken);
	});
}
