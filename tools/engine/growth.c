/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of both traces are put into one array, sorted by what they are of, and neighbours of
 * one name become one row.  Prints nothing.
 */
#include "tools/engine/growth.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

/* "forward (model.py:12)" without ":12", wherever a number stands between a colon and a bracket
 * or the end. */
static char *
without_lines(char *name)
{
	char *to = name;

	for (const char *from = name; *from != '\0'; from++) {
		size_t digits = *from == ':' ? strspn(from + 1, "0123456789") : 0;

		if (digits > 0 && (from[1 + digits] == ')' || from[1 + digits] == '\0'))
			from += digits;
		else
			*to++ = *from;
	}
	*to = '\0';
	return name;
}

static struct growth_side
side_of(const struct account *account)
{
	return (struct growth_side){
		.there = true,
		.allocs = account->allocs,
		.frees = account->frees,
		.bytes = account->bytes,
		.peak_live = account->peak_live,
		.peak_bytes = account->peak_bytes,
		.live = account->live,
		.live_bytes = account->live_bytes,
		.most_bytes = account->most_bytes,
	};
}

static void
add_side(struct growth_side *to, const struct growth_side *from)
{
	to->there |= from->there;
	to->allocs += from->allocs;
	to->frees += from->frees;
	to->bytes = account_add(to->bytes, from->bytes);
	to->peak_live += from->peak_live;
	to->peak_bytes += from->peak_bytes;
	to->live += from->live;
	to->live_bytes += from->live_bytes;
	to->most_bytes = account_add(to->most_bytes, from->most_bytes);
}

static void
add_rows(struct growth *growth, const struct growth_trace *trace, enum growth_by by, bool ignore_lines,
	 bool is_after)
{
	const struct accounts *accounts =
		by == GROWTH_BY_STREAM ? &trace->census->streams : &trace->census->holders;

	for (size_t i = 0; i < accounts->count; i++) {
		const struct account *account = &accounts->at[i];
		struct growth_row row = { 0 };

		if (by == GROWTH_BY_STREAM)
			row.stream = account->key;
		else
			row.name = xstrdup(trace_name_text(trace->reader, (trace_name)account->key));
		if (row.name != NULL && ignore_lines)
			without_lines(row.name);
		*(is_after ? &row.after : &row.before) = side_of(account);
		growth->rows = xgrow(growth->rows, &growth->room, growth->count, sizeof *growth->rows);
		growth->rows[growth->count++] = row;
	}
}

static int
by_key(const void *left, const void *right)
{
	const struct growth_row *a = left, *b = right;

	if (a->name != NULL)
		return strcmp(a->name, b->name);
	return a->stream < b->stream ? -1 : a->stream > b->stream;
}

static void
fold(struct growth *growth)
{
	size_t kept = 0;

	if (growth->count > 0)
		qsort(growth->rows, growth->count, sizeof *growth->rows, by_key);
	for (size_t i = 0; i < growth->count; i++) {
		struct growth_row *row = &growth->rows[i];

		if (kept > 0 && by_key(&growth->rows[kept - 1], row) == 0) {
			add_side(&growth->rows[kept - 1].before, &row->before);
			add_side(&growth->rows[kept - 1].after, &row->after);
			free(row->name);
		} else {
			growth->rows[kept++] = *row;
		}
	}
	growth->count = kept;
}

/* The larger change first, and of two as large the one that grew. */
static int
compare_change(uint64_t a_before, uint64_t a_after, uint64_t b_before, uint64_t b_after)
{
	bool a_grew = a_after > a_before, b_grew = b_after > b_before;
	uint64_t a = a_grew ? a_after - a_before : a_before - a_after;
	uint64_t b = b_grew ? b_after - b_before : b_before - b_after;

	return a != b ? (a > b ? -1 : 1) : b_grew - a_grew;
}

static int
most_changed_first(const void *left, const void *right)
{
	const struct growth_row *a = left, *b = right;
	int order = compare_change(a->before.peak_bytes, a->after.peak_bytes, b->before.peak_bytes,
				   b->after.peak_bytes);

	if (order == 0)
		order = compare_change(a->before.live_bytes, a->after.live_bytes, b->before.live_bytes,
				       b->after.live_bytes);
	if (order == 0)
		order = compare_change(a->before.bytes, a->after.bytes, b->before.bytes, b->after.bytes);
	return order != 0 ? order : by_key(a, b);
}

static bool
is_same_side(const struct growth_side *a, const struct growth_side *b)
{
	return a->there == b->there && a->allocs == b->allocs && a->frees == b->frees &&
	       a->bytes == b->bytes && a->peak_live == b->peak_live && a->peak_bytes == b->peak_bytes &&
	       a->live == b->live && a->live_bytes == b->live_bytes && a->most_bytes == b->most_bytes;
}

static void
judge(struct growth *growth, const struct growth_row *row)
{
	uint64_t before = row->before.peak_bytes, after = row->after.peak_bytes;

	if (before == after) {
		before = row->before.live_bytes;
		after = row->after.live_bytes;
	}
	growth->grew += after > before;
	growth->shrank += after < before;
	growth->same += after == before;
	growth->added += !row->before.there;
	growth->gone += !row->after.there;
	growth->identical &= is_same_side(&row->before, &row->after);
}

static bool
is_same_census(const struct census *a, const struct census *b)
{
	return a->allocs == b->allocs && a->frees == b->frees && a->bytes == b->bytes &&
	       a->freed_bytes == b->freed_bytes && a->live == b->live && a->live_bytes == b->live_bytes &&
	       a->most_live == b->most_live && a->peak_bytes == b->peak_bytes &&
	       memcmp(a->sizes.counts, b->sizes.counts, sizeof a->sizes.counts) == 0;
}

void
growth_compare(const struct growth_trace *before, const struct growth_trace *after, enum growth_by by,
	       bool ignore_lines, struct growth *growth)
{
	*growth = (struct growth){ .identical = is_same_census(before->census, after->census) };
	add_rows(growth, before, by, ignore_lines, false);
	add_rows(growth, after, by, ignore_lines, true);
	fold(growth);
	for (size_t i = 0; i < growth->count; i++)
		judge(growth, &growth->rows[i]);
	if (growth->count > 0)
		qsort(growth->rows, growth->count, sizeof *growth->rows, most_changed_first);
}

void
growth_fini(struct growth *growth)
{
	for (size_t i = 0; i < growth->count; i++)
		free(growth->rows[i].name);
	free(growth->rows);
	*growth = (struct growth){ 0 };
}
