/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's memory snapshot.  The machine runs the pickle; what is known here is where
 * on its stack the list of segments and the devices' traces are being made, so that
 * segments and entries are taken out one by one.
 *
 * Events are made in events.c, segments in segments.c.
 */
#include "tools/trace/snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/trace/events.h"
#include "tools/trace/memory.h"

const char *
snapshot_text(const struct snapshot_reader *sr, uint32_t name)
{
	return trace_name_text(sr->reader, name);
}

bool
snapshot_refuse(struct snapshot_reader *sr, const struct snapshot_fields *fields, const char *format, ...)
{
	char text[320];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	trace_fail_byte(sr->reader, fields->offset, "%s: %s", fields->place, text);
	return false;
}

bool
snapshot_fields(struct snapshot_reader *sr, const struct pickle_value *value, struct snapshot_fields *fields)
{
	struct pickle_object *dict = value->object;

	memset(fields->at, 0, sizeof fields->at);
	fields->offset = sr->vm.at;
	if (!snapshot_plain(value, PICKLE_DICT))
		return snapshot_refuse(sr, fields, "expected a dict of its own");
	fields->offset = dict->offset;
	dict->busy = true;
	for (uint32_t i = 0; i + 1 < dict->count; i += 2) {
		const struct pickle_value *pair = dict->item + i;
		if (pair[0].type == PICKLE_TEXT && pair[0].name < KEY_COUNT)
			fields->at[pair[0].name] = &pair[1];
	}
	return true;
}

bool
snapshot_number(struct snapshot_reader *sr, const struct snapshot_fields *fields, enum snapshot_word key,
		const uint64_t *otherwise, uint64_t *number)
{
	const struct pickle_value *value = fields->at[key];

	if (value == NULL && otherwise == NULL)
		return snapshot_refuse(sr, fields, "\"%s\" is missing", snapshot_text(sr, key));
	if (value == NULL) {
		*number = *otherwise;
		return true;
	}
	if (value->type != PICKLE_INT)
		return snapshot_refuse(sr, fields, "\"%s\" is not an integer of 64 bits",
				       snapshot_text(sr, key));
	if (value->negative && (key == KEY_SIZE || key == KEY_TOTAL_SIZE || key == KEY_REQUESTED_SIZE ||
				key == KEY_REAL_SIZE || key == KEY_TIME_US || key == KEY_DEVICE))
		return snapshot_refuse(sr, fields, "\"%s\" is %" PRId64 ", expected 0 or more",
				       snapshot_text(sr, key), (int64_t)value->number);
	*number = value->number;
	return true;
}

/* ---- where on the stack we are --------------------------------------------- */

static bool
is_key(const struct pickle_vm *vm, size_t at, enum snapshot_word key)
{
	return at % 2 == 1 && vm->stack[at].type == PICKLE_TEXT && vm->stack[at].name == key;
}

/* Of a list at `at` with `marks` below it: what it is the list of, and for a device
 * which one.  The top dict is value 0, its keys and values follow. */
static enum snapshot_use
find_role(const struct pickle_vm *vm, size_t at, size_t marks, size_t *device)
{
	size_t first = marks > 0 && vm->mark[0] == 1 ? 1 : 0;
	size_t outer;

	if (at == 0)
		return marks == 0 ? USE_SEGMENTS : USE_PLAIN;
	if (vm->stack[0].type != PICKLE_DICT || marks - first > 1)
		return USE_PLAIN;
	if (marks == first && is_key(vm, at - 1, KEY_SEGMENTS))
		return USE_SEGMENTS;
	outer = marks == first ? at - 1 : vm->mark[first] - 1;
	if (outer < 2 || outer >= at || !is_key(vm, outer - 1, KEY_DEVICE_TRACES) ||
	    !snapshot_plain(&vm->stack[outer], PICKLE_LIST))
		return USE_PLAIN;
	*device = vm->stack[outer].object->count + (at - outer - 1);
	return USE_DEVICE;
}

/* Finds a list's role when it gets its first item, and makes it that. */
static bool
list_role(struct snapshot_reader *sr, size_t at, size_t marks, enum snapshot_use *role)
{
	struct pickle_object *list = sr->vm.stack[at].object;
	size_t device = 0;

	*role = list->use;
	if (list->use != USE_PLAIN || list->count != 0)
		return true;
	*role = find_role(&sr->vm, at, marks, &device);
	if (*role == USE_PLAIN)
		return true;
	if (device > INT32_MAX) {
		pickle_refuse(&sr->vm, "more than %d devices", INT32_MAX);
		return false;
	}
	pickle_object_clear(&sr->vm.store, list);
	list->use = (uint8_t)*role;
	list->word[0] = (uint32_t)device;
	return true;
}

/* A segment or an entry leaves the stack; a mark of it stays, for the list to get. */
static enum pickle_flow
take_item(struct snapshot_reader *sr, struct pickle_object *list, size_t item)
{
	struct pickle_value *value = &sr->vm.stack[item];
	bool taken;

	if (list->use == USE_SEGMENTS)
		taken = snapshot_segment(sr, value, list->word[1]);
	else
		taken = snapshot_entry(sr, value, (int32_t)list->word[0], list->word[1]);
	if (!taken)
		return PICKLE_FAILED;
	list->word[1]++;
	*value = (struct pickle_value){ .type = PICKLE_TAKEN, .negative = true };
	return sr->queued > 0 ? PICKLE_PAUSE : PICKLE_GO;
}

static enum pickle_flow
item_added(void *context, struct pickle_vm *vm, size_t list, size_t item)
{
	const struct pickle_value *value = &vm->stack[item];

	if (value->type != PICKLE_TAKEN)
		return take_item(context, vm->stack[list].object, item);
	/* Taken while it stood here, or something that was taken elsewhere. */
	return value->negative ? PICKLE_GO : pickle_refuse(vm, "an entry or segment is listed twice");
}

static enum pickle_flow
list_taken(void *context, struct pickle_vm *vm, size_t list)
{
	enum snapshot_use role;

	if (!list_role(context, list, vm->mark_count, &role))
		return PICKLE_FAILED;
	return role == USE_SEGMENTS || role == USE_DEVICE ? PICKLE_PAUSE : PICKLE_GO;
}

/* ---- the top dict ------------------------------------------------------------ */

static enum pickle_flow
top_segments(struct snapshot_reader *sr, const struct pickle_value *value)
{
	bool empty = snapshot_plain(value, PICKLE_LIST) && value->object->count == 0;

	if (sr->segments_seen)
		return pickle_refuse(&sr->vm, "\"segments\" is there twice");
	if (!empty && (value->type != PICKLE_LIST || value->object->use != USE_SEGMENTS))
		return pickle_refuse(&sr->vm, "\"segments\" is not a list of its own");
	sr->segments_seen = true;
	return PICKLE_GO;
}

static enum pickle_flow
top_traces(struct snapshot_reader *sr, const struct pickle_value *value)
{
	if (sr->traces_seen)
		return pickle_refuse(&sr->vm, "\"device_traces\" is there twice");
	if (!snapshot_plain(value, PICKLE_LIST))
		return pickle_refuse(&sr->vm, "\"device_traces\" is not a list of its own");
	for (uint32_t i = 0; i < value->object->count; i++) {
		const struct pickle_value *trace = &value->object->item[i];
		bool empty = snapshot_plain(trace, PICKLE_LIST) && trace->object->count == 0;
		if (!empty && (trace->type != PICKLE_LIST || trace->object->use != USE_DEVICE ||
			       trace->object->word[0] != i))
			return pickle_refuse(&sr->vm, "the trace of device %u is not a list of its own", i);
	}
	sr->traces_seen = true;
	return PICKLE_GO;
}

static enum pickle_flow
top_filled(struct snapshot_reader *sr)
{
	struct pickle_object *top = sr->vm.stack[0].object;
	enum pickle_flow flow = PICKLE_GO;

	for (; flow == PICKLE_GO && sr->pairs_seen + 1 < top->count; sr->pairs_seen += 2) {
		const struct pickle_value *pair = top->item + sr->pairs_seen;
		if (pair[0].type != PICKLE_TEXT)
			return pickle_refuse(&sr->vm, "a key of the snapshot is not a text");
		if (pair[0].name == KEY_SEGMENTS)
			flow = top_segments(sr, &pair[1]);
		else if (pair[0].name == KEY_DEVICE_TRACES)
			flow = top_traces(sr, &pair[1]);
		else if (pair[0].name == KEY_ALLOCATOR_SETTINGS)
			flow = snapshot_settings(sr, &pair[1]) ? PICKLE_GO : PICKLE_FAILED;
	}
	return flow;
}

static enum pickle_flow
dict_filled(void *context, struct pickle_vm *vm, size_t dict)
{
	struct snapshot_reader *sr = context;
	enum snapshot_use role;
	size_t group;

	if (dict == 0)
		return top_filled(sr);
	group = vm->mark_count > 0 ? vm->mark[vm->mark_count - 1] : 0;
	if (group == 0 || vm->stack[group - 1].type != PICKLE_LIST)
		return PICKLE_GO;
	if (!list_role(sr, group - 1, vm->mark_count - 1, &role))
		return PICKLE_FAILED;
	if (role != USE_SEGMENTS && role != USE_DEVICE)
		return PICKLE_GO;
	return take_item(sr, vm->stack[group - 1].object, dict);
}

/* ---- the reader ----------------------------------------------------------------- */

static bool
snapshot_probe(const uint8_t *data, size_t size)
{
	return size >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5;
}

/* What STOP left must be a snapshot, and the file must end there. */
static enum pickle_flow
finish(struct snapshot_reader *sr)
{
	const struct pickle_value *top = &sr->vm.stack[0];
	struct trace_input *in = &sr->reader->input;
	bool list =
		top->type == PICKLE_LIST && (top->object->use == USE_SEGMENTS ||
					     (snapshot_plain(top, PICKLE_LIST) && top->object->count == 0));

	if (!list && top->type != PICKLE_DICT)
		return pickle_refuse(&sr->vm,
				     "the pickle holds no memory snapshot, expected a dict or a list");
	if (!list && !sr->segments_seen)
		return pickle_refuse(&sr->vm, "\"segments\" is missing in the snapshot");
	if (trace_input_have(in, 1)) {
		sr->vm.at = trace_input_offset(in);
		return pickle_refuse(&sr->vm, "data behind the end of the pickle");
	}
	return in->state == TRACE_END ? PICKLE_STOPPED : PICKLE_CUT;
}

/* Runs until events are queued or nothing more comes. */
static void
advance(struct snapshot_reader *sr)
{
	sr->queued = sr->given = 0;
	while (sr->queued == 0 && (sr->flow == PICKLE_GO || sr->flow == PICKLE_PAUSE)) {
		sr->flow = pickle_run(&sr->vm);
		if (sr->flow == PICKLE_STOPPED)
			sr->flow = finish(sr);
		if (sr->flow != PICKLE_PAUSE)
			snapshot_flush(sr);
		if (sr->skip_events)
			sr->queued = 0;
	}
}

static enum trace_result
end_result(struct snapshot_reader *sr)
{
	if (sr->flow == PICKLE_STOPPED)
		return TRACE_END;
	if (sr->flow == PICKLE_CUT)
		return trace_truncated_byte(
			sr->reader, trace_input_offset(&sr->reader->input) +
					    (uint64_t)(sr->reader->input.end - sr->reader->input.pos));
	return TRACE_ERROR;
}

static enum trace_result
snapshot_next(struct trace_reader *reader, struct trace_event *event)
{
	struct snapshot_reader *sr = reader->state;

	if (sr->given == sr->queued)
		advance(sr);
	if (sr->given == sr->queued)
		return end_result(sr);
	*event = sr->queue[sr->given++];
	return TRACE_OK;
}

static enum trace_result
snapshot_rewind(struct trace_reader *reader)
{
	struct snapshot_reader *sr = reader->state;

	pickle_reset(&sr->vm);
	sr->segments_seen = sr->traces_seen = false;
	sr->pairs_seen = 0;
	sr->holding = false;
	sr->queued = sr->given = 0;
	sr->flow = PICKLE_GO;
	return TRACE_OK;
}

/* Whether the list of segments is known when the first entry appears. */
static bool
segments_came(const struct snapshot_reader *sr)
{
	const struct pickle_vm *vm = &sr->vm;

	for (size_t at = 1; at < vm->depth && vm->stack[at].type == PICKLE_TEXT; at += 2)
		if (vm->stack[at].name == KEY_SEGMENTS)
			return true;
	return sr->segments_seen;
}

static bool
add_words(struct trace_names *names)
{
	static const char *const word[] = {
#define X(name, text) text,
		SNAPSHOT_KEY_MAP(X) SNAPSHOT_WORD_MAP(X)
#undef X
	};
	trace_name name;

	for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
		if (!trace_names_add(names, word[i], strlen(word[i]), &name))
			return false;
	return true;
}

/* Reads up to the first event: the segments stand before it, or need a pass of their own. */
static enum trace_result
snapshot_open(struct trace_reader *reader)
{
	struct snapshot_reader *sr = trace_zeroed(sizeof *sr);

	if (sr == NULL)
		return trace_no_memory(reader);
	reader->state = sr;
	sr->reader = reader;
	sr->vm.reader = reader;
	sr->vm.user = (struct pickle_user){
		.dict_filled = dict_filled, .list_taken = list_taken, .item = item_added, .context = sr
	};
	if (!add_words(&reader->names))
		return trace_no_memory(reader);
	if (snapshot_find_frees(sr) != TRACE_OK)
		return TRACE_ERROR;
	reader->snapshot = &sr->snapshot;
	advance(sr);
	if (sr->queued == 0 && sr->flow == PICKLE_FAILED)
		return TRACE_ERROR;
	if (sr->queued > 0 && !segments_came(sr)) {
		sr->skip_events = true;
		advance(sr);
		sr->skip_events = false;
		trace_input_rewind(&reader->input);
		snapshot_rewind(reader);
	}
	sr->open = true;
	return TRACE_OK;
}

static void
snapshot_close(struct trace_reader *reader)
{
	struct snapshot_reader *sr = reader->state;

	if (sr == NULL)
		return;
	snapshot_segments_free(sr);
	pickle_fini(&sr->vm);
	trace_release(sr);
}

const struct trace_format trace_format_pytorch = {
	.name = "pytorch-snapshot",
	.hint = "a pickled PyTorch memory snapshot",
	.allocations = "events \"alloc\" or segments (torch.cuda.memory._record_memory_history() comes before what "
		       "is to be seen)",
	.has_addresses = true,
	.is_of_pytorch = true,
	.probe = snapshot_probe,
	.open = snapshot_open,
	.next = snapshot_next,
	.rewind = snapshot_rewind,
	.close = snapshot_close,
};
