/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Downsampling that keeps peaks.
 */
#include "tools/engine/series.h"

#include <stdlib.h>

#include "tools/xalloc.h"

void
series_init(struct series *series, size_t columns, bool by_time, uint64_t x_first, uint64_t x_last)
{
	*series = (struct series){
		.by_time = by_time,
		.x_first = x_first,
		.x_span = x_last > x_first ? x_last - x_first : 1,
		.column_count = columns,
	};
	if (columns > 0)
		series->columns = xcalloc(columns, sizeof *series->columns);
}

void
series_fini(struct series *series)
{
	free(series->columns);
	*series = (struct series){ 0 };
}

static size_t
column_of(const struct series *series, uint64_t x)
{
	double share = x > series->x_first ? (double)(x - series->x_first) / (double)series->x_span : 0;
	size_t column = (size_t)(share * (double)series->column_count);

	return column < series->column_count ? column : series->column_count - 1;
}

static void
set_live(struct series *series, struct series_column *column, uint64_t live, const struct holders *holders)
{
	column->live = live;
	for (size_t i = 0; i < series->layer_count; i++) {
		int64_t bytes = holders_now(holders, series->layers[i]).bytes;

		column->layer[i] = bytes > 0 ? (uint64_t)bytes : 0;
	}
}

/* The columns up to and with `column` begin with the last known values. */
static void
fill_to(struct series *series, size_t column, const struct holders *holders)
{
	for (; series->filled <= column; series->filled++) {
		struct series_column *next = &series->columns[series->filled];

		set_live(series, next, series->live, holders);
		next->reserved = series->reserved;
	}
}

void
series_reach(struct series *series, uint64_t x, const struct holders *holders)
{
	if (series->column_count == 0)
		return;
	series->current = column_of(series, x);
	fill_to(series, series->current, holders);
}

void
series_put(struct series *series, uint64_t live, uint64_t reserved, const struct holders *holders)
{
	struct series_column *column;

	if (series->column_count == 0)
		return;
	column = &series->columns[series->current];
	if (live >= column->live)
		set_live(series, column, live, holders);
	if (reserved > column->reserved)
		column->reserved = reserved;
	series->live = live;
	series->reserved = reserved;
}

void
series_finish(struct series *series, const struct holders *holders)
{
	if (series->column_count > 0)
		fill_to(series, series->column_count - 1, holders);
}
