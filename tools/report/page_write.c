/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that can stand in a page, whatever texts are in it.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/page.h"
#include "tools/xalloc.h"

/* ---- values ----------------------------------------------------------------- */

void
page_text(struct page *page, const char *string)
{
	FILE *out = page->out;
	json_t *value = json_string(string);
	char *quoted = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;

	if (quoted == NULL)
		fputs("\"?\"", out);
	for (const char *c = quoted; c != NULL && *c != '\0'; c++)
		if (*c == '<' || *c == '>' || *c == '&')
			fprintf(out, "\\u%04x", (unsigned)*c);
		else
			putc(*c, out);
	free(quoted);
	json_decref(value);
}

void
page_number(struct page *page, uint64_t value)
{
	if (value == UINT64_MAX)
		fputs("-1", page->out);
	else
		fprintf(page->out, "%" PRIu64, value);
}

void
page_separate(struct page *page)
{
	if (!page->first)
		fputs(",\n", page->out);
	page->first = false;
}

void
page_key(struct page *page, const char *name)
{
	page_separate(page);
	fprintf(page->out, "\"%s\":", name);
}

void
page_begin(struct page *page, char bracket)
{
	putc(bracket, page->out);
	page->first = true;
}

void
page_end(struct page *page, char bracket)
{
	putc(bracket, page->out);
	page->first = false;
}

void
page_put_number(struct page *page, const char *name, uint64_t value)
{
	page_key(page, name);
	page_number(page, value);
}

void
page_put_text(struct page *page, const char *name, const char *value)
{
	page_key(page, name);
	page_text(page, value);
}

void
page_put_column(struct page *page, const char *name, page_getter *get, const void *things, size_t count)
{
	page_key(page, name);
	putc('[', page->out);
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			putc(',', page->out);
		page_number(page, get(things, i));
	}
	putc(']', page->out);
}

/* ---- names ------------------------------------------------------------------- */

uint32_t
page_name(struct page *page, enum scene_by by, uint32_t of)
{
	struct page_names *names = &page->names[by];
	size_t room = names->room;

	if (of >= room) {
		while (room <= of)
			room = room > 0 ? 2 * room : 64;
		names->number = xreallocarray(names->number, room, sizeof *names->number);
		memset(names->number + names->room, 0, (room - names->room) * sizeof *names->number);
		names->room = room;
	}
	if (names->number[of] == 0) {
		names->keys = xgrow(names->keys, &names->key_room, names->count, sizeof *names->keys);
		names->keys[names->count++] = of;
		names->number[of] = (uint32_t)names->count;
	}
	return names->number[of] - 1;
}

void
page_put_names(struct page *page)
{
	page_key(page, "names");
	page_begin(page, '{');
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		struct page_names *names = &page->names[by];

		page_key(page, scene_by_names[by]);
		page_begin(page, '[');
		for (size_t i = 0; i < names->count; i++) {
			char *name = scene_name(names->scene, names->by, names->keys[i]);

			page_separate(page);
			page_text(page, name);
			free(name);
		}
		page_end(page, ']');
	}
	page_end(page, '}');
}
