/* SPDX-License-Identifier: Apache-2.0
 * The four pictures on the canvas, and what is under a point of each. */
const canvas = document.getElementById('canvas');
const paper = canvas.getContext('2d');
const MARGIN = { left: 92, top: 30, right: 26, bottom: 46 };
const FONT = '12px system-ui, sans-serif';
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
	let step = niceStep(span / unit[1], Math.max(2, box.width / 110));

	if (!data.axis.time)
		step = Math.max(1, step);
	const bottom = box.top + box.height;
	for (let i = Math.ceil(view.x0 / unit[1] / step - 1e-9); i * step * unit[1] <= view.x1; i++) {
		const x = toX(i * step * unit[1]);
		line(x, bottom, x, bottom + 5, colours.ink);
		text(data.axis.time ? digits(i * step, step) : count(i * step), x, bottom + 18, 'center');
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
		drawMoment(data.oom.x, 'out of memory: ' + bytes(data.oom.requested) + ' requested', colours.alarm, taken);
	drawMoment(data.peak.x, 'peak live ' + bytes(data.peak.live), colours.ink, taken);
	maps.forEach((map, i) => {
		if (i === state.when && map.x !== data.peak.x && !(data.oom && map.x === data.oom.x))
			drawMoment(map.x, map.name, colours.faint, taken);
	});
}

/* ---- live and reserved bytes over time ---- */

/* The columns of the view, thinned to a point a pixel by the highest in each. */
function outline(values)
{
	const n = values.length, per = data.axis.span / n;
	const first = Math.max(0, Math.floor(view.x0 / per)), last = Math.min(n - 1, Math.floor(view.x1 / per));

	paper.beginPath();
	paper.moveTo(toX(first * per), toY(0));
	for (let i = first; i <= last; i++) {
		const y = toY(values[i]);
		paper.lineTo(toX(i * per), y);
		paper.lineTo(toX((i + 1) * per), y);
	}
	paper.lineTo(toX((last + 1) * per), toY(0));
}

function stack()
{
	const layers = data.series[state.by];
	const sums = [];
	let below = data.series.live.map(() => 0);

	for (const layer of layers) {
		below = below.map((sum, i) => Math.min(sum + layer[i], data.series.live[i]));
		sums.push(below);
	}
	return sums;
}

function layerColour(layer)
{
	return state.dimmed && state.dimmed[layer] ? colours.dim : colours.layer[layer];
}

function drawTimeline()
{
	inside(() => {
		outline(data.series.reserved);
		paper.fillStyle = colours.held;
		paper.fill();
		outline(data.series.live);
		paper.fillStyle = layerColour(OTHER);
		paper.fill();
		for (let i = state.sums.length - 1; i >= 0; i--) {
			outline(state.sums[i]);
			paper.fillStyle = layerColour(i);
			paper.fill();
		}
		paper.strokeStyle = colours.ink;
		paper.lineWidth = 0.8;
		outline(data.series.live);
		paper.stroke();
		paper.lineWidth = 1.6;
		outline(data.series.reserved);
		paper.stroke();
		if (data.capacity > 0)
			line(box.left, toY(data.capacity), box.left + box.width, toY(data.capacity), colours.alarm, [6, 4]);
		if (state.selected !== null)
			line(toX(state.selected), box.top, toX(state.selected), box.top + box.height, colours.focus);
	});
	drawByteAxis();
	drawTimeAxis();
	drawMoments();
	if (data.capacity > 0 && data.capacity <= view.y1)
		text('capacity ' + bytes(data.capacity), box.left + 8, toY(data.capacity) - 5, 'left', colours.alarm);
}

function timelineAt(px)
{
	const n = data.series.live.length;
	const i = Math.floor(fromX(px) / data.axis.span * n);

	return i >= 0 && i < n ? i : -1;
}

function describeColumn(i)
{
	const n = data.series.live.length, live = data.series.live[i];
	const rows = [[data.axis.time ? 'at' : 'event', data.axis.time ? duration(data.axis.span * i / n)
								       : count(data.axis.span * i / n)],
		      ['reserved', bytes(data.series.reserved[i])], ['live', bytes(live)]];

	data.layers[state.by].map((layer, j) => [layer.name, data.series[state.by][j][i]])
		.filter(row => row[1] > 0).sort((a, b) => b[1] - a[1])
		.forEach(row => rows.push([bytes(row[1]), row[0]]));
	return rows;
}

/* ---- every block: addresses by time ---- */

function drawSpans()
{
	const spans = data.spans;

	paper.fillStyle = colours.held;
	for (let i = 0; i < spans.address.length; i++) {
		const x0 = toX(spans.x0[i]), x1 = toX(spans.x1[i]);
		const y1 = toY(state.spanY[2 * i]), y0 = toY(state.spanY[2 * i + 1]);
		if (x1 >= box.left && x0 <= box.left + box.width)
			paper.fillRect(x0, y0, x1 - x0, Math.max(y1 - y0, 0.5));
	}
}

function blockRectangle(i)
{
	const end = blocks.freed[i] >= 0 ? blocks.x1[i] : data.axis.span;
	const x0 = toX(blocks.x0[i]), y0 = toY(blocks.y1[i]);

	return [x0, y0, Math.max(toX(end) - x0, 1), Math.max(toY(blocks.y0[i]) - y0, 1)];
}

/* Of blocks less than a pixel large only those that cover what none before did.  Borders are
 * what is left free between rectangles that are large enough. */
function drawBlocks()
{
	const order = blocks.byLayer(), right = box.left + box.width, bottom = box.top + box.height;
	let last = null, drawn = 0;

	for (let k = 0; k < order.length; k++) {
		const i = order[k];
		if (blocks.x0[i] > view.x1 || blocks.y0[i] > view.y1 || blocks.y1[i] < view.y0)
			continue;
		const [x, y, w, h] = blockRectangle(i);
		if (x > right || x + w < box.left || y > bottom || y + h < box.top)
			continue;
		const colour = state.search && !blocks.match[i] ? colours.dim : colours.layer[blocks.layer[i]];
		if (colour !== last)
			paper.fillStyle = last = colour;
		paper.fillRect(x, y, w > 4 ? w - 0.7 : w, h > 4 ? h - 0.7 : h);
		drawn++;
	}
	return drawn;
}

function drawMatches()
{
	paper.strokeStyle = colours.ink;
	paper.lineWidth = 1;
	for (let i = 0; state.search && i < blocks.n; i++)
		if (blocks.match[i]) {
			const [x, y, w, h] = blockRectangle(i);
			paper.fillStyle = colours.layer[blocks.layer[i]];
			paper.fillRect(x, y, w, h);
			if (w > 3 && h > 3)
				paper.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
		}
}

function drawSelected(x, y, w, h)
{
	paper.strokeStyle = colours.paper;
	paper.lineWidth = 4;
	paper.strokeRect(x - 1, y - 1, w + 2, h + 2);
	paper.strokeStyle = colours.focus;
	paper.lineWidth = 2;
	paper.strokeRect(x - 1, y - 1, w + 2, h + 2);
}

function drawMemory()
{
	inside(() => {
		drawSpans();
		state.drawn = drawBlocks();
		drawMatches();
		if (state.selected !== null)
			drawSelected(...blockRectangle(state.selected));
	});
	drawAddressAxis();
	drawTimeAxis();
	drawMoments();
}

function drawAddressAxis()
{
	let last = Infinity;

	for (const part of data.parts) {
		const y = toY(part[2]);
		if (part[2] < view.y0 || part[2] > view.y1 || last - y < 16)
			continue;
		last = y;
		text(part[0].toString(16), box.left - 8, y + 2, 'right', colours.ink, '11px system-ui, sans-serif');
		line(box.left - 4, y, box.left, y, colours.ink);
	}
	/* Within one part there is nothing at the axis: the view's ends tell where one is. */
	const inner = last === Infinity ? partAt((view.y0 + view.y1) / 2) : undefined;
	for (const y of inner ? [view.y0, view.y1] : [])
		text(Math.round(inner[0] + y - inner[2]).toString(16), box.left - 8, toY(y) + 4, 'right', colours.ink,
		     '11px system-ui, sans-serif');
	text('address', box.left - 8, box.top - 10, 'right', colours.faint);
}

/* The one under the point, or within two pixels of it; the least area is on top of the eye. */
function blockAt(px, py)
{
	let best = -1, least = Infinity;

	for (const slack of [0, 2]) {
		for (let i = 0; i < blocks.n; i++) {
			if (state.search && !blocks.match[i])
				continue;
			const [x, y, w, h] = blockRectangle(i);
			if (px < x - slack || px > x + w + slack || py < y - slack || py > y + h + slack)
				continue;
			if (w * h < least) {
				best = i;
				least = w * h;
			}
		}
		if (best >= 0)
			return best;
	}
	return -1;
}

/* ---- segments and blocks at a moment ---- */

function partRectangle(part)
{
	const x = toX(part.from), y = toY(part.line);

	return [x, y, Math.max(toX(part.to) - x, 0.6), Math.max((toY(part.line + 1) - y) * 0.74, 1)];
}

function partColour(map, part)
{
	const i = part.extent;

	if (i < 0 || map.kind[i] === FREE)
		return colours.held;
	if (state.search && !map.blocks.match[i])
		return colours.dim;
	return map.kind[i] === PENDING ? colours.pending : colours.layer[map.blocks.layer[i]];
}

function drawMap()
{
	const map = maps[state.when];

	inside(() => {
		for (const part of map.parts) {
			if (part.to < view.x0 || part.from > view.x1 || part.line > view.y1 || part.line + 1 < view.y0)
				continue;
			const [x, y, w, h] = partRectangle(part);
			paper.fillStyle = partColour(map, part);
			paper.fillRect(x, y, w > 4 ? w - 0.7 : w, h);
			if (part.extent < 0) {
				paper.strokeStyle = colours.faint;
				paper.lineWidth = 0.6;
				paper.strokeRect(x, y, w, h);
			}
		}
		if (state.selected !== null)
			map.parts.filter(part => part.extent === state.selected)
				.forEach(part => drawSelected(...partRectangle(part)));
	});
	for (const [at, address] of map.starts) {
		const y = toY(at + 0.37), pitch = toY(1) - toY(0);
		if (y > box.top && y < box.top + box.height && (pitch >= 13 || at % Math.ceil(13 / pitch) === 0))
			text(address.toString(16), box.left - 8, y + 4, 'right', colours.faint, '11px system-ui, sans-serif');
	}
	drawMapScale(map);
}

function drawMapScale(map)
{
	const perByte = map.scale * box.width / (view.x1 - view.x0), y = box.top + box.height + 26;
	const size = Math.pow(2, Math.ceil(Math.log2(70 / perByte))), width = size * perByte;

	text(map.name + ': ' + bytes(map.live) + ' live, ' + bytes(map.reserved) + ' reserved in ' +
	     plural(map.segments.length, 'segment'), box.left, box.top - 10, 'left');
	if (map.segments.length === 0 || !isFinite(width))
		return;
	line(box.left, y, box.left + width, y, colours.ink);
	line(box.left, y - 5, box.left, y, colours.ink);
	line(box.left + width, y - 5, box.left + width, y, colours.ink);
	text(bytes(size), box.left + width + 8, y + 3, 'left');
}

function mapAt(px, py)
{
	const x = fromX(px), y = fromY(py), slack = (view.x1 - view.x0) / box.width;
	let found = null;

	for (const part of maps[state.when].parts)
		if (y >= part.line && y < part.line + 0.74 && x >= part.from - slack && x <= part.to + slack)
			if (found === null || part.extent >= 0)
				found = x >= part.from && x <= part.to || found === null || found.extent < 0 ? part : found;
	return found;
}

/* ---- sizes ---- */

function panels()
{
	const height = (box.height - 46) / 2;

	return [['blocks', data.sizes.count, data.sizes.layers[state.by].count, box.top],
		['bytes', data.sizes.bytes, data.sizes.layers[state.by].bytes, box.top + height + 46]]
		.map(([title, all, layers, top]) => ({ title, all, layers, top, height,
						       pitch: Math.min(90, box.width / all.length) }));
}

function drawPanel(panel)
{
	const most = panel.all.reduce((a, b) => Math.max(a, b), 1), scale = panel.height / (most * 1.12);
	const bottom = panel.top + panel.height;
	let last = -Infinity, labelled = -Infinity;

	panel.all.forEach((all, i) => {
		const x = box.left + panel.pitch * i, label = panel.title === 'bytes' ? bytes(all).replace('iB', '') : count(all);
		let y = bottom;
		panel.layers.forEach((layer, j) => {
			y -= layer[i] * scale;
			paper.fillStyle = layerColour(j);
			paper.fillRect(x + panel.pitch * 0.09, y, panel.pitch * 0.82, layer[i] * scale);
		});
		paper.font = '11px system-ui, sans-serif';
		const half = paper.measureText(label).width / 2;
		if (all > 0 && x + panel.pitch / 2 - half > labelled + 3) {
			text(label, x + panel.pitch / 2, y - 4, 'center', colours.faint, paper.font);
			labelled = x + panel.pitch / 2 + half;
		}
		if (i === state.selected) {
			paper.strokeStyle = colours.focus;
			paper.lineWidth = 2;
			paper.strokeRect(x + 1, panel.top, panel.pitch - 2, panel.height);
		}
	});
	for (let i = 0; i <= panel.all.length; i++) {
		const x = box.left + panel.pitch * i;
		if (x - last < 64)
			continue;
		last = x;
		line(x, bottom, x, bottom + 4, colours.ink);
		text(bytes(Math.pow(2, data.sizes.first + i)), x, bottom + 17, i === panel.all.length ? 'right' : 'center',
		     colours.ink, '11px system-ui, sans-serif');
	}
	line(box.left, panel.top, box.left, bottom, colours.ink);
	line(box.left, bottom, box.left + box.width, bottom, colours.ink);
	text(panel.title, box.left - 10, panel.top + panel.height / 2, 'right', colours.faint);
}

function drawSizes()
{
	panels().forEach(drawPanel);
	text('size requested', box.left + box.width / 2, box.top + box.height + 38, 'center', colours.faint);
}

function bucketAt(px)
{
	const i = Math.floor((px - box.left) / panels()[0].pitch);

	return i >= 0 && i < data.sizes.count.length ? i : -1;
}

function describeBucket(i)
{
	return [['sizes', bytes(Math.pow(2, data.sizes.first + i)) + ' to ' + bytes(Math.pow(2, data.sizes.first + i + 1))],
		['blocks', count(data.sizes.count[i])], ['bytes', bytes(data.sizes.bytes[i])]];
}

/* ---- any of them ---- */

const pictures = {
	timeline: { draw: drawTimeline },
	memory: { draw: drawMemory },
	map: { draw: drawMap },
	sizes: { draw: drawSizes },
};

function draw()
{
	paper.fillStyle = colours.paper;
	paper.fillRect(0, 0, canvas.width, canvas.height);
	pictures[state.kind].draw();
}
