/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the data of a page: JSON, a value at a time, since it may be large.
 */
#ifndef SOMA_TOOLS_REPORT_PAGE_H
#define SOMA_TOOLS_REPORT_PAGE_H

#include <stdio.h>

#include "tools/report/picture.h"

/* Names that the page refers to, by numbers of its own. */
struct page_names {
	const struct scene *scene;
	enum scene_by by;
	uint32_t *number; /* by key; 0: none yet, else the number and 1 */
	size_t room;
	uint32_t *keys; /* by number */
	size_t count, key_room;
};

struct page {
	FILE *out;
	const struct picture *picture;
	struct page_names names[SCENE_BY_COUNT];
	bool first; /* of the array or object that is being written */
};

/* ---- page_write.c ---- */

void page_begin(struct page *page, char bracket);
void page_end(struct page *page, char bracket);

/* Before each element of an array, and each member of an object. */
void page_separate(struct page *page);
void page_key(struct page *page, const char *name);

/* A string without '<', '>' and '&'. */
void page_text(struct page *page, const char *text);

/* UINT64_MAX, which is no event and no time, is -1. */
void page_number(struct page *page, uint64_t value);

void page_put_text(struct page *page, const char *name, const char *value);
void page_put_number(struct page *page, const char *name, uint64_t value);

/* An array: `get` of each of `count` things. */
typedef uint64_t page_getter(const void *things, size_t index);
void page_put_column(struct page *page, const char *name, page_getter *get, const void *things, size_t count);

/* The number of a name, a new one at its first use. */
uint32_t page_name(struct page *page, enum scene_by by, uint32_t key);
void page_put_names(struct page *page);

/* ---- page_map.c ---- */

/* All moments that there are, and which of them was chosen. */
void page_put_maps(struct page *page);

#endif
