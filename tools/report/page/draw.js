/* SPDX-License-Identifier: Apache-2.0
 * The four pictures on the canvas, and what is under a point of each. */

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

/* Where parts begin, and round addresses within; from the bottom up, as there is room. */
function drawAddressAxis()
{
	const step = Math.max(1, Math.pow(2, Math.ceil(Math.log2(60 / box.height * (view.y1 - view.y0)))));
	let last = Infinity;
	const label = (address, at) => {
		const y = toY(at);
		if (at < view.y0 || at > view.y1 || last - y < 16)
			return;
		last = y;
		text(address.toString(16), box.left - 8, y + 3, 'right', colours.ink, SMALL_FONT);
		line(box.left - 4, y, box.left, y, colours.ink);
	};

	for (const [from, to, start] of data.parts) {
		if (start > view.y1 || start + to - from < view.y0)
			continue;
		label(from, start);
		const seen = Math.max(from, from + view.y0 - start);
		for (let at = (Math.floor(seen / step) + 1) * step; at < to && start + at - from <= view.y1; at += step)
			label(at, start + at - from);
	}
	text('address (hex)', box.left - 8, box.top - 10, 'right', colours.faint);
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
			text(address.toString(16), box.left - 8, y + 4, 'right', colours.faint, SMALL_FONT);
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
		paper.font = SMALL_FONT;
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
		     colours.ink, SMALL_FONT);
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
