/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pool a segment or an entry belongs to: a pair of integers.  Entries may share a
 * pair, and there is one for each of them: it is taken, and its value kept as a name.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/snapshot.h"

static bool
is_pair(const struct pickle_value *value)
{
	const struct pickle_value *item;

	if ((!snapshot_plain(value, PICKLE_TUPLE) && !snapshot_plain(value, PICKLE_LIST)) ||
	    value->object->count != 2)
		return false;
	item = value->object->item;
	return item[0].type == PICKLE_INT && item[1].type == PICKLE_INT;
}

static bool
keep(struct snapshot_reader *sr, struct pickle_object *object, const uint64_t pool[2])
{
	char text[48];
	int length = snprintf(text, sizeof text, "pool %" PRIu64 " %" PRIu64, pool[0], pool[1]);
	trace_name name;

	if (!trace_names_add(&sr->reader->names, text, (size_t)length, &name)) {
		trace_no_memory(sr->reader);
		return false;
	}
	pickle_take(&sr->vm, object, USE_POOL, name);
	return true;
}

/* One that was taken before: its name, or 0. */
static trace_name
kept(const struct pickle_value *value)
{
	if (value->type == PICKLE_TAKEN)
		return (trace_name)value->number;
	if ((value->type == PICKLE_TUPLE || value->type == PICKLE_LIST) && value->object->use == USE_POOL)
		return value->object->word[0];
	return 0;
}

bool
snapshot_pool(struct snapshot_reader *sr, const struct snapshot_fields *fields, enum snapshot_word key,
	      uint64_t pool[2], bool *there)
{
	const struct pickle_value *value = fields->at[key], *item;

	*there = value != NULL && value->type != PICKLE_NONE;
	if (!*there)
		return true;
	if (sscanf(snapshot_text(sr, kept(value)), "pool %" SCNu64 " %" SCNu64, &pool[0], &pool[1]) == 2)
		return true;
	if (!is_pair(value))
		return snapshot_refuse(sr, fields, "\"%s\" is not a pair of integers",
				       snapshot_text(sr, key));
	item = value->object->item;
	pool[0] = item[0].number;
	pool[1] = item[1].number;
	return key != KEY_POOL_ID || keep(sr, value->object, pool);
}
