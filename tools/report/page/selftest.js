/* SPDX-License-Identifier: Apache-2.0
 * With #selftest at the end of its address the page tries itself out, as a person would, and
 * writes what it saw into an element of that name.  With #kind=..., #by=... it starts so. */
function pointer(type, x, y)
{
	const corner = canvas.getBoundingClientRect();

	canvas.dispatchEvent(new PointerEvent(type, { clientX: corner.left + x, clientY: corner.top + y, pointerId: 1,
						      bubbles: true }));
}

function wheel(x, y, delta)
{
	const corner = canvas.getBoundingClientRect();

	canvas.dispatchEvent(new WheelEvent('wheel', { clientX: corner.left + x, clientY: corner.top + y, deltaY: delta,
						       bubbles: true, cancelable: true }));
}

function press(name)
{
	canvas.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
}

function find(string)
{
	at('search').value = string;
	at('search').dispatchEvent(new Event('input', { bubbles: true }));
	draw();
}

/* How many colours a picture has, of a grid of its points. */
function coloursSeen()
{
	draw();
	const image = paper.getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
	for (let i = 0; i < image.length; i += 4 * 37)
		seen.add(image[i] << 16 | image[i + 1] << 8 | image[i + 2]);
	return seen.size;
}

function tipText()
{
	return at('tip').hidden ? '' : at('tip').textContent;
}

/* The middle of the largest block, which nothing smaller covers. */
function testHover(seen)
{
	const i = tour()[0], [x, y, w, h] = blockRectangle(i);
	const px = Math.min(Math.max(x + w / 2, box.left), box.left + box.width);

	pointer('pointermove', px, y + h / 2);
	const key = blockAt(px, y + h / 2);
	seen.hover_block = hex(blocks.ptr[key]);
	seen.hover_text = tipText();
	seen.hover_complete = blocks.describe(key).every(([word, value]) => tipText().includes(word + value));
	pointer('pointerdown', px, y + h / 2);
	pointer('pointerup', px, y + h / 2);
	seen.selected = at('details').textContent === seen.hover_text;
	pointer('pointermove', 2, 2);
	seen.hover_ends = tipText() === '';
}

function testZoom(seen)
{
	/* Where the pointer can be: whole pixels of the window. */
	const corner = canvas.getBoundingClientRect();
	const px = Math.round(corner.left + box.left + box.width * 0.3) - corner.left;
	const py = Math.round(corner.top + box.top + box.height * 0.6) - corner.top;
	const x = fromX(px), y = fromY(py), width = view.x1 - view.x0, height = view.y1 - view.y0;

	wheel(px, py, -300);
	seen.wheel_narrows = view.x1 - view.x0 < width && view.y1 - view.y0 < height;
	seen.wheel_keeps_the_point = Math.abs(fromX(px) - x) < width * 1e-6 && Math.abs(fromY(py) - y) < height * 1e-6;
	const before = view.x0;
	pointer('pointerdown', px, py);
	pointer('pointermove', px + 40, py);
	pointer('pointerup', px + 40, py);
	seen.drag_moves = Math.abs((before - view.x0) / (view.x1 - view.x0) * box.width - 40) < 1e-3;
	press('0');
	seen.zero_shows_all = view.x1 - view.x0 === width;
	press('+');
	seen.plus_narrows = view.x1 - view.x0 < width;
	press('ArrowRight');
	seen.arrow_moves = view.x0 > 0;
	canvas.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }));
	seen.double_click_shows_all = view.x1 - view.x0 === width;
}

function testSearch(seen)
{
	const name = data.names.holder[blocks.holder[tour()[0]]];
	const expected = Array.from(blocks.holder).filter(id => data.names.holder[id].toLowerCase()
								    .includes(name.trim().toLowerCase())).length;

	find(name);
	seen.search_name = name;
	seen.search_found = blocks.match.reduce((a, b) => a + b, 0);
	seen.search_complete = seen.search_found >= expected && seen.search_found > 0;
	seen.search_says = at('found').textContent.startsWith(plural(seen.search_found, 'block'));
	press('n');
	seen.search_tours = blocks.match[state.selected] === 1;
	find('no holder has this name \u2603');
	seen.search_of_nothing = blocks.match.reduce((a, b) => a + b, 0);
	press('Escape');
	seen.escape_ends = state.search === '' && state.selected === null;
}

function testKinds(seen)
{
	seen.colours = {};
	for (const kind of kinds) {
		document.querySelector('[data-kind=' + kind + ']').click();
		seen.colours[kind] = coloursSeen();
		press('n');
		seen[kind + '_step'] = at('details').textContent !== '' || tour().length === 0;
		pointer('pointermove', box.left + box.width / 2, box.top + box.height - 3);
	}
	for (const by of BYS) {
		at('by').value = by;
		at('by').dispatchEvent(new Event('change'));
		seen['by_' + by] = state.by === by && coloursSeen() > 1;
	}
	press('2');
	seen.digit_chooses = state.kind === 'memory';
}

function selfTest()
{
	const wish = new URLSearchParams(location.hash.slice(1)), seen = {};

	if (wish.has('kind') && kinds.includes(wish.get('kind')))
		show(wish.get('kind'), wish.get('by') || state.by, state.when);
	if (wish.has('find'))
		find(wish.get('find'));
	if (!wish.has('selftest'))
		return;
	const result = document.createElement('pre');
	result.id = 'selftest';
	try {
		testKinds(seen);
		at('by').value = 'holder';
		at('by').dispatchEvent(new Event('change'));
		if (blocks.n > 0) {
			testHover(seen);
			testZoom(seen);
			testSearch(seen);
		}
		seen.blocks = blocks.n;
		seen.fetched = performance.getEntriesByType('resource').length;
		seen.scripts = document.scripts.length;
		seen.images = document.images.length;
		seen.title = document.title;
		seen.done = true;
	} catch (problem) {
		seen.error = String(problem.stack || problem);
	}
	result.textContent = JSON.stringify(seen);
	document.body.append(result);
}
