/* SPDX-License-Identifier: Apache-2.0
 * What the page is about, and how quantities read. */
const data = JSON.parse(document.getElementById('data').textContent);
const BYS = ['holder', 'stream', 'pool'];
const OTHER = 8;
const KINDS = ['live', 'freed, not known to have executed', 'free but held', 'small blocks'];
const LIVE = 0, PENDING = 1, FREE = 2, SMALL = 3;

function bytes(value)
{
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
	let power = 0;

	while (value >= 1024 && power + 1 < units.length) {
		value /= 1024;
		power++;
	}
	return (power === 0 ? String(value) : value.toPrecision(value >= 1000 ? 4 : 3)) + ' ' + units[power];
}

function count(value)
{
	return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

function plural(value, noun)
{
	return count(value) + ' ' + noun + (value === 1 ? '' : 's');
}

function hex(value)
{
	return '0x' + value.toString(16);
}

const TIMES = [['h', 3600e9], ['min', 60e9], ['s', 1e9], ['ms', 1e6], ['\u00b5s', 1e3], ['ns', 1]];

/* 90 s reads better than 1.5 min; 1.5 s better than 1500 ms. */
function timeUnit(ns)
{
	let i = 0;

	if (!data.axis.clock)
		return ['moments of the trace', 1];
	while (i + 1 < TIMES.length && ns < (i < 2 ? 2 : 1) * TIMES[i][1])
		i++;
	return TIMES[i];
}

/* A length on the axis. */
function duration(x)
{
	if (!data.axis.time)
		return plural(x, 'event');
	const unit = timeUnit(x);
	return Number((x / unit[1]).toPrecision(4)) + ' ' + unit[0];
}

/* A place on it. */
function moment(x, event)
{
	const name = event < 0 ? 'before the first event' : 'event ' + count(event);

	return data.axis.time ? duration(x) + ' (' + name + ')' : name;
}

/* The least of 1, 2, 5 times a power of ten (or of two) that gives at most n steps. */
function niceStep(span, n)
{
	const raw = span / n, power = Math.pow(10, Math.floor(Math.log10(raw)));

	return [1, 2, 5, 10].map(f => f * power).find(step => raw <= step * 1.0000001);
}

/* Blocks, whether of the whole replay or of a map, are columns. */
class Blocks {
	constructor(columns)
	{
		this.n = columns.ptr.length;
		for (const name of ['ptr', 'size', 'x0', 'x1', 'event', 'freed'])
			this[name] = Float64Array.from(columns[name]);
		for (const name of BYS)
			this[name] = Int32Array.from(columns[name]);
		this.layer = new Uint8Array(this.n);
		this.match = new Uint8Array(this.n);
	}

	/* The same for all whose name has no layer. */
	colour(by)
	{
		const layerOf = new Map(data.layers[by].map((layer, i) => [layer.id, i]));

		for (let i = 0; i < this.n; i++) {
			const layer = layerOf.get(this[by][i]);
			this.layer[i] = layer === undefined ? OTHER : layer;
		}
		this.order = null;
	}

	/* By layer, so that the colour seldom changes. */
	byLayer()
	{
		if (this.order === null) {
			const layer = this.layer;
			this.order = Int32Array.from(layer.keys()).sort((a, b) => layer[b] - layer[a] || a - b);
		}
		return this.order;
	}

	find(text)
	{
		const wanted = text.toLowerCase();
		const hits = {};

		for (const by of BYS)
			hits[by] = data.names[by].map(name => name.toLowerCase().includes(wanted));
		let found = 0, size = 0;
		for (let i = 0; i < this.n; i++) {
			const hit = hits.holder[this.holder[i]] || hits.stream[this.stream[i]] ||
				    hits.pool[this.pool[i]] || hex(this.ptr[i]) === wanted;
			this.match[i] = hit ? 1 : 0;
			found += this.match[i];
			size += hit ? this.size[i] : 0;
		}
		return { found, size };
	}

	/* What is known of one: pairs of a word and a text. */
	describe(i)
	{
		const freed = this.freed[i] >= 0;
		const end = freed ? this.x1[i] : data.axis.span;

		return [
			['block', hex(this.ptr[i])],
			['size', bytes(this.size[i]) + (this.size[i] >= 1024 ? ' (' + count(this.size[i]) + ')' : '')],
			['holder', data.names.holder[this.holder[i]]],
			['stream', data.names.stream[this.stream[i]].replace(/^stream /, '')],
			['pool', data.names.pool[this.pool[i]]],
			['from', moment(this.x0[i], this.event[i])],
			['to', freed ? moment(this.x1[i], this.freed[i]) : 'the end, never freed'],
			['lifetime', duration(Math.max(0, end - this.x0[i]))],
		];
	}
}

const blocks = new Blocks(data.blocks);

/* Where an address is on the axis that leaves out what was never used. */
function addressAt(address)
{
	const parts = data.parts;
	let low = 0, high = parts.length;

	while (low < high) {
		const middle = (low + high) >> 1;
		if (parts[middle][0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low === 0)
		return 0;
	const part = parts[low - 1];
	return part[2] + Math.min(address, part[1]) - part[0];
}

blocks.y0 = new Float64Array(blocks.n);
blocks.y1 = new Float64Array(blocks.n);
for (let i = 0; i < blocks.n; i++) {
	blocks.y0[i] = addressAt(blocks.ptr[i]);
	blocks.y1[i] = addressAt(blocks.ptr[i] + blocks.size[i]);
}

/* ---- the memory at a moment: bars on lines, as the still picture has them ---- */

const LINES = 38, FEW = 4, WIDTH = 1000, GAP = 4, LEAST = 1.5;

class MemoryMap {
	constructor(map)
	{
		Object.assign(this, map);
		this.blocks = new Blocks(map.extents);
		this.kind = Uint8Array.from(map.extents.kind);
		this.room = Float64Array.from(map.extents.room);
		this.apart = this.segments.length <= LINES;
		this.choose();
		this.place();
	}

	/* Calls each(segment, x, line) and says how many lines there are. */
	flow(scale, each)
	{
		let x = 0, line = 0;

		for (const segment of this.segments) {
			let width = Math.max(segment[1] * scale, LEAST);
			if (x > 0 && (this.apart || x + width > WIDTH)) {
				x = 0;
				line++;
			}
			if (each)
				each(segment, x, line, width);
			const more = Math.ceil(width / WIDTH) - 1;
			line += Math.max(0, more);
			x += width - Math.max(0, more) * WIDTH + GAP;
		}
		return line + 1;
	}

	choose()
	{
		const largest = this.segments.reduce((most, segment) => Math.max(most, segment[1]), 1);
		/* More lines than fit the window are reached by moving. */
		const lines = Math.max(LINES, Math.ceil(this.segments.length / 100));
		const whole = this.apart && this.segments.length >= FEW;
		let low = 0, high = (whole ? 1 : LINES) * WIDTH / largest;

		for (let i = 0; i < 50; i++) {
			const middle = (low + high) / 2;
			if (this.flow(middle, null) <= lines)
				low = middle;
			else
				high = middle;
		}
		this.scale = low;
	}

	/* Parts: extent (-1: the whole bar), line, from, to. */
	place()
	{
		this.parts = [];
		this.starts = [];
		this.lines = this.flow(this.scale, (segment, x, line, width) => {
			const scale = width / Math.max(1, segment[1]);
			if (x === 0)
				this.starts.push([line, segment[0]]);
			this.cut(-1, segment, x, line, 0, width);
			for (let i = segment[4]; i < segment[4] + segment[5]; i++) {
				const from = (this.blocks.ptr[i] - segment[0]) * scale;
				this.cut(i, segment, x, line, from, from + this.room[i] * scale);
			}
		});
	}

	cut(extent, segment, x, line, from, to)
	{
		from += x;
		to += x;
		line += Math.floor(from / WIDTH);
		to -= Math.floor(from / WIDTH) * WIDTH;
		from -= Math.floor(from / WIDTH) * WIDTH;
		while (to - from > 1e-9) {
			this.parts.push({ extent, segment, line, from, to: Math.min(to, WIDTH) });
			to -= WIDTH;
			from = 0;
			line++;
		}
	}

	describe(part)
	{
		const [address, size, stream, pool] = part.segment;
		const i = part.extent;
		const segment = ['segment', hex(address) + ', ' + bytes(size) + ', ' + stream + (pool ? ', ' + pool : '')];

		if (i < 0)
			return [segment];
		if (this.kind[i] === LIVE)
			return this.blocks.describe(i).concat([['takes', bytes(this.room[i])], segment]);
		const rows = [['memory', KINDS[this.kind[i]]], ['address', hex(this.blocks.ptr[i])],
			      ['size', bytes(this.room[i])]];
		if (this.kind[i] === SMALL)
			rows.push(['blocks', count(this.small[i])]);
		return rows.concat([segment]);
	}
}

const maps = data.maps.map(map => new MemoryMap(map));
