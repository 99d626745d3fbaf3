/* SPDX-License-Identifier: Apache-2.0
 * What is shown, and how people change it: pointer, wheel, keys, the search. */
const state = { kind: data.kind, by: data.by, when: data.when, search: '', dimmed: null, selected: null, sums: [],
		spanY: [], drawn: 0 };
const views = {};
let view = { x0: 0, x1: 1, y0: 0, y1: 1 }, pending = false;
const at = id => document.getElementById(id);
const kinds = Array.from(document.querySelectorAll('[data-kind]'), tab => tab.dataset.kind);

function whole(kind)
{
	if (kind === 'map')
		return { x0: 0, x1: WIDTH, y0: 0, y1: Math.min(maps[state.when].lines, LINES) < 14 ? 14 : Math.min(maps[state.when].lines, LINES) };
	const top = data.capacity > data.peak.reserved && data.capacity < 1.5 * data.peak.reserved ? data.capacity : data.peak.reserved;
	return { x0: 0, x1: data.axis.span, y0: 0, y1: kind === 'memory' ? data.length : Math.max(1, top * 1.06) };
}

function redraw()
{
	if (pending)
		return;
	pending = true;
	requestAnimationFrame(() => {
		pending = false;
		draw();
	});
}

/* ---- zooming and moving ---- */

/* Never beyond what there is, and never closer than a millionth of it. */
function clampAxis(a, b, low, high, free)
{
	const least = (high - low) / 1e6;
	let width = Math.min(Math.max(b - a, least), high - low);
	let from = (a + b) / 2 - width / 2;

	from = Math.min(Math.max(from, low), Math.max(low, (free || high) - width));
	return [from, from + width];
}

function setView(x0, x1, y0, y1)
{
	const all = whole(state.kind);
	const bottom = state.kind === 'map' ? Math.max(all.y1, maps[state.when].lines + 1) : all.y1;

	[view.x0, view.x1] = clampAxis(x0, x1, all.x0, all.x1);
	[view.y0, view.y1] = clampAxis(y0, y1, all.y0, all.y1, bottom);
	redraw();
}

/* Around a point of the canvas, which stays where it is. */
function zoom(factor, px, py, sideways)
{
	const x = fromX(px), y = fromY(py), both = state.kind !== 'timeline' && !sideways;

	if (state.kind === 'sizes')
		return;
	setView(x - (x - view.x0) * factor, x + (view.x1 - x) * factor, both ? y - (y - view.y0) * factor : view.y0,
		both ? y + (view.y1 - y) * factor : view.y1);
}

function move(dx, dy)
{
	const x = dx / box.width * (view.x1 - view.x0);
	const y = dy / box.height * (view.y1 - view.y0) * (state.kind === 'map' ? 1 : -1);

	if (state.kind !== 'sizes')
		setView(view.x0 - x, view.x1 - x, view.y0 - y, view.y1 - y);
}

function showAll()
{
	Object.assign(view, whole(state.kind));
	redraw();
}

function centreOn(x, y)
{
	const w = (view.x1 - view.x0) / 2, h = (view.y1 - view.y0) / 2;
	const in_x = x >= view.x0 && x <= view.x1, in_y = y >= view.y0 && y <= view.y1;

	setView(in_x ? view.x0 : x - w, in_x ? view.x1 : x + w, in_y ? view.y0 : y - h, in_y ? view.y1 : y + h);
}

/* ---- what is under the pointer, and what was chosen ---- */

function rowsAt(px, py)
{
	let i;

	if (px < box.left || px > box.left + box.width || py < box.top || py > box.top + box.height)
		return null;
	switch (state.kind) {
	case 'timeline':
		i = timelineAt(px);
		return i < 0 ? null : { key: data.axis.span * (i + 0.5) / data.series.live.length, rows: describeColumn(i) };
	case 'memory':
		i = blockAt(px, py);
		return i < 0 ? null : { key: i, rows: blocks.describe(i) };
	case 'map':
		i = mapAt(px, py);
		return i === null ? null : { key: i.extent, rows: maps[state.when].describe(i) };
	default:
		i = bucketAt(px);
		return i < 0 ? null : { key: i, rows: describeBucket(i) };
	}
}

/* Names are only ever texts here: nothing of the trace becomes an element. */
function list(element, rows)
{
	const dl = document.createElement('dl');

	for (const [word, value] of rows) {
		const dt = document.createElement('dt'), dd = document.createElement('dd');
		dt.textContent = word;
		dd.textContent = value;
		dl.append(dt, dd);
	}
	element.replaceChildren(dl);
}

function hover(px, py)
{
	const tip = at('tip'), found = rowsAt(px, py), stage = canvas.parentElement;

	tip.hidden = found === null;
	if (found === null)
		return;
	list(tip, found.rows);
	const left = px + 16 + tip.offsetWidth > stage.clientWidth ? px - 12 - tip.offsetWidth : px + 16;
	const top = Math.min(py + 14, stage.clientHeight - tip.offsetHeight - 6);
	tip.style.left = Math.max(4, left) + 'px';
	tip.style.top = Math.max(4, top) + 'px';
}

function select(key, rows)
{
	state.selected = key;
	if (key === null)
		at('details').replaceChildren();
	else
		list(at('details'), rows);
	redraw();
}

/* Which blocks n and p go through: the largest first, the matches alone in a search. */
function tour()
{
	const map = maps[state.when];

	if (state.kind === 'memory')
		return Array.from(blocks.size.keys()).filter(i => !state.search || blocks.match[i])
			.sort((a, b) => blocks.size[b] - blocks.size[a] || a - b);
	if (state.kind === 'map')
		return Array.from(map.kind.keys()).filter(i => map.kind[i] === LIVE && (!state.search || map.blocks.match[i]))
			.sort((a, b) => map.room[b] - map.room[a] || a - b);
	return Array.from(data.sizes.count.keys());
}

function step(by)
{
	if (state.kind === 'timeline') {
		const n = data.series.live.length, per = (view.x1 - view.x0) / 100;
		const x = state.selected === null ? data.peak.x : state.selected + by * per;
		const i = Math.min(n - 1, Math.max(0, Math.floor(x / data.axis.span * n)));
		select(Math.min(data.axis.span, Math.max(0, x)), describeColumn(i));
		centreOn(state.selected, view.y0);
		return;
	}
	const order = tour(), now = order.indexOf(state.selected);
	if (order.length === 0)
		return;
	const i = order[now < 0 ? 0 : (now + by + order.length) % order.length];
	if (state.kind === 'memory') {
		select(i, blocks.describe(i));
		centreOn(((blocks.freed[i] >= 0 ? blocks.x1[i] : data.axis.span) + blocks.x0[i]) / 2, (blocks.y0[i] + blocks.y1[i]) / 2);
	} else if (state.kind === 'map') {
		const part = maps[state.when].parts.find(one => one.extent === i);
		select(i, maps[state.when].describe(part));
		centreOn((part.from + part.to) / 2, part.line + 0.5);
	} else {
		select(i, describeBucket(i));
	}
}

/* ---- the search ---- */

function search(string)
{
	const map = maps[state.when];

	state.search = string.trim();
	state.dimmed = null;
	at('found').textContent = '';
	if (state.search !== '') {
		const all = blocks.find(state.search), here = map.blocks.find(state.search);
		const found = state.kind === 'map' ? here : all;
		const text = state.search.toLowerCase();
		state.dimmed = data.layers[state.by].map(layer => !layer.name.toLowerCase().includes(text));
		while (state.dimmed.length <= OTHER)
			state.dimmed.push(true);
		at('found').textContent = plural(found.found, 'block') + ', ' + bytes(found.size);
	}
	redraw();
}

/* ---- choosing ---- */

function legendRow(colour, name, note, onclick)
{
	const row = document.createElement(onclick ? 'button' : 'div');
	const swatch = document.createElement('i'), label = document.createElement('span');

	swatch.style.background = colour;
	label.textContent = name;
	row.append(swatch, label);
	if (note) {
		const small = document.createElement('small');
		small.textContent = note;
		row.append(small);
	}
	if (onclick) {
		row.title = 'find its blocks';
		row.addEventListener('click', onclick);
	}
	at('legend').append(row);
}

/* What each layer holds, and all: at the peak, or at the moment that a map is of. */
function heldBytes(layers)
{
	const map = maps[state.when], sums = layers.map(layer => layer.bytes);

	if (state.kind !== 'map' || map.peak)
		return [sums, data.peak.live];
	sums.fill(0);
	for (let i = 0; i < map.blocks.n; i++)
		if (map.kind[i] === LIVE && map.blocks.layer[i] < sums.length)
			sums[map.blocks.layer[i]] += map.blocks.size[i];
	return [sums, map.live];
}

function drawLegend()
{
	const layers = data.layers[state.by], [held, all] = heldBytes(layers);
	const then = state.kind === 'map' && !maps[state.when].peak ? ' then, ' : ' at the peak, ';
	const share = size => bytes(size) + then + (all > 0 ? (100 * size / all).toFixed(1) : '0.0') + ' %';
	const rest = held.reduce((left, size) => left - size, all);

	at('legend').replaceChildren();
	if (state.kind !== 'sizes')
		legendRow('var(--held)', state.kind === 'memory' ? 'reserved, not live' : 'free but held',
			  state.kind === 'timeline' ? 'below the line: peak ' + bytes(data.peak.reserved) : '');
	if (state.kind === 'map' && maps[state.when].kind.includes(PENDING))
		legendRow('var(--pending)', KINDS[PENDING], '');
	if (rest > 0 || layers.length === 0)
		legendRow('var(--l8)', layers.length > 0 ? 'all other ' + state.by + 's' : 'live', share(Math.max(0, rest)));
	for (let i = layers.length - 1; i >= 0; i--)
		legendRow('var(--l' + i + ')', layers[i].name, share(held[i]), () => {
			at('search').value = at('search').value === layers[i].name ? '' : layers[i].name;
			search(at('search').value);
		});
}

function show(kind, by, when)
{
	const same = kind === state.kind;

	if (!same)
		views[state.kind] = Object.assign({}, view);
	state.kind = kind;
	state.by = by;
	state.when = when;
	blocks.colour(by);
	maps[when].blocks.colour(by);
	state.sums = stack();
	if (!same || !views[kind])
		Object.assign(view, views[kind] || whole(kind));
	views[kind] = view;
	view = Object.assign({}, view);
	for (const tab of document.querySelectorAll('[data-kind]')) {
		const chosen = tab.dataset.kind === kind;
		tab.setAttribute('aria-selected', chosen);
		tab.tabIndex = chosen ? 0 : -1;
	}
	at('by').value = by;
	at('when').value = when;
	at('when-label').hidden = kind === 'timeline' || kind === 'sizes' || maps.length < 2;
	at('note').textContent = kind === 'memory' ? data.notes.memory : kind === 'map' ? maps[when].note : '';
	at('tip').hidden = true;
	select(null);
	drawLegend();
	search(at('search').value);
}

function key(event)
{
	const step_x = box.width / 8, step_y = box.height / 8;
	const middle = [box.left + box.width / 2, box.top + box.height / 2];
	const keys = {
		ArrowLeft: () => move(step_x, 0), ArrowRight: () => move(-step_x, 0),
		ArrowUp: () => move(0, step_y), ArrowDown: () => move(0, -step_y),
		'+': () => zoom(1 / 1.5, ...middle), '=': () => zoom(1 / 1.5, ...middle), '-': () => zoom(1.5, ...middle),
		'0': showAll, Home: showAll, n: () => step(1), p: () => step(-1),
	};

	if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
		event.preventDefault();
		keys[event.key]();
	}
}

function pageKey(event)
{
	const typing = event.target.tagName === 'INPUT' || event.target.tagName === 'SELECT';

	if (event.ctrlKey || event.metaKey || event.altKey)
		return;
	if (event.key === 'Escape') {
		at('search').value = '';
		select(null);
		search('');
		canvas.focus();
	} else if (!typing && event.key === '/') {
		event.preventDefault();
		at('search').focus();
	} else if (!typing && kinds[Number(event.key) - 1]) {
		show(kinds[Number(event.key) - 1], state.by, state.when);
	}
}

/* ---- events ---- */

/* Where on the canvas, exactly: offsetX is whole pixels. */
function place(event)
{
	const corner = canvas.getBoundingClientRect();

	return [event.clientX - corner.left, event.clientY - corner.top];
}

function listenToPointer()
{
	let drag = null;

	canvas.addEventListener('pointerdown', event => {
		drag = { at: place(event), far: false };
		if (event.isTrusted)
			canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener('pointermove', event => {
		const now = place(event);
		if (drag === null) {
			hover(...now);
			return;
		}
		drag.far = drag.far || Math.hypot(now[0] - drag.at[0], now[1] - drag.at[1]) > 4;
		if (!drag.far)
			return;
		at('tip').hidden = true;
		canvas.classList.add('drag');
		move(now[0] - drag.at[0], now[1] - drag.at[1]);
		drag.at = now;
	});
	canvas.addEventListener('pointerup', event => {
		const found = drag !== null && !drag.far ? rowsAt(...place(event)) : null;
		if (drag !== null && !drag.far)
			select(found === null ? null : found.key, found === null ? [] : found.rows);
		drag = null;
		canvas.classList.remove('drag');
	});
	canvas.addEventListener('pointercancel', () => { drag = null; });
	canvas.addEventListener('pointerleave', () => { at('tip').hidden = true; });
	canvas.addEventListener('dblclick', showAll);
	canvas.addEventListener('wheel', event => {
		const now = place(event), delta = event.deltaY || event.deltaX;
		event.preventDefault();
		zoom(Math.exp(Math.max(-1, Math.min(1, delta * 0.002))), ...now, event.shiftKey);
		hover(...now);
	}, { passive: false });
}

function listen()
{
	listenToPointer();
	canvas.addEventListener('keydown', key);
	document.addEventListener('keydown', pageKey);
	at('search').addEventListener('input', () => search(at('search').value));
	at('by').addEventListener('change', () => show(state.kind, at('by').value, state.when));
	at('when').addEventListener('change', () => show(state.kind, state.by, Number(at('when').value)));
	at('in').addEventListener('click', () => zoom(1 / 1.5, box.left + box.width / 2, box.top + box.height / 2));
	at('out').addEventListener('click', () => zoom(1.5, box.left + box.width / 2, box.top + box.height / 2));
	at('all').addEventListener('click', showAll);
	at('tabs').addEventListener('keydown', event => {
		const next = { ArrowRight: 1, ArrowLeft: kinds.length - 1 }[event.key];
		if (next) {
			show(kinds[(kinds.indexOf(state.kind) + next) % kinds.length], state.by, state.when);
			document.querySelector('[data-kind=' + state.kind + ']').focus();
		}
	});
	for (const tab of document.querySelectorAll('[data-kind]'))
		tab.addEventListener('click', () => show(tab.dataset.kind, state.by, state.when));
	new ResizeObserver(() => {
		fit();
		draw();
	}).observe(canvas.parentElement);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
		readColours();
		redraw();
	});
}

function start()
{
	document.title = data.title + ' \u2013 soma plot';
	at('title').textContent = data.title;
	at('summary').textContent = data.summary;
	maps.forEach((map, i) => at('when').append(new Option(map.name, i)));
	for (let i = 0; i < data.spans.address.length; i++)
		state.spanY.push(addressAt(data.spans.address[i]), addressAt(data.spans.address[i] + data.spans.size[i]));
	readColours();
	fit();
	show(state.kind, state.by, state.when);
	listen();
	draw();
	selfTest();
}
