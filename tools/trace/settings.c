/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator's settings in a snapshot, as one line of text:
 * key=value,key=value, with the members of an inner dict as key:value;key:value.
 */
#include <inttypes.h>
#include <stdio.h>

#include "tools/trace/snapshot.h"

struct line {
	char text[2048];
	size_t used;
};

static void
put_text(struct line *line, const char *before, const char *text)
{
	size_t room = sizeof line->text - line->used;
	int length = snprintf(line->text + line->used, room, "%s%s", before, text);

	if (length > 0)
		line->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void
put_scalar(struct snapshot_reader *sr, struct line *line, const struct pickle_value *value)
{
	char number[32];

	if (value->type == PICKLE_TEXT)
		put_text(line, "", snapshot_text(sr, value->name));
	else if (value->type == PICKLE_BOOL)
		put_text(line, "", value->number != 0 ? "true" : "false");
	else if (value->type == PICKLE_FLOAT && snprintf(number, sizeof number, "%g", value->real) > 0)
		put_text(line, "", number);
	else if (value->type == PICKLE_INT && value->negative &&
		 snprintf(number, sizeof number, "%" PRId64, (int64_t)value->number) > 0)
		put_text(line, "", number);
	else if (value->type == PICKLE_INT && snprintf(number, sizeof number, "%" PRIu64, value->number) > 0)
		put_text(line, "", number);
	else
		put_text(line, "", "?");
}

/* Members that are 0 say nothing: roundup_power2_divisions lists every power. */
static void
put_inner(struct snapshot_reader *sr, struct line *line, const struct pickle_object *dict)
{
	const char *before = "";

	for (uint32_t i = 0; i + 1 < dict->count; i += 2) {
		const struct pickle_value *pair = dict->item + i;
		if (pair[1].type == PICKLE_INT && pair[1].number == 0)
			continue;
		put_text(line, before, "");
		put_scalar(sr, line, &pair[0]);
		put_text(line, ":", "");
		put_scalar(sr, line, &pair[1]);
		before = ";";
	}
}

bool
snapshot_settings(struct snapshot_reader *sr, const struct pickle_value *value)
{
	struct line line = { .used = 0 };
	const struct pickle_object *dict = value->object;

	if (!snapshot_plain(value, PICKLE_DICT))
		return true;
	for (uint32_t i = 0; i + 1 < dict->count; i += 2) {
		const struct pickle_value *pair = dict->item + i;
		put_text(&line, i > 0 ? "," : "", "");
		put_scalar(sr, &line, &pair[0]);
		put_text(&line, "=", "");
		if (snapshot_plain(&pair[1], PICKLE_DICT))
			put_inner(sr, &line, pair[1].object);
		else
			put_scalar(sr, &line, &pair[1]);
	}
	if (trace_names_add(&sr->reader->names, line.text, line.used, &sr->snapshot.settings))
		return true;
	trace_no_memory(sr->reader);
	return false;
}
