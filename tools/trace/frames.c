/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a block: of the frames that made it, the innermost one that says something
 * to a person.  That is the first line of Python outside of torch; without one, the
 * first line of Python; without one, the first function that is not torch's own, nor
 * how a thread begins.  A thread that computes gradients has none of these: there it is
 * the node of the graph that runs, or else the outermost operator.
 *
 * A frame is understood once, a list of frames once: lists share frames and entries
 * share lists, so the cost stays in proportion to the file.
 */
#include <stdio.h>
#include <string.h>

#include "tools/trace/clean.h"
#include "tools/trace/snapshot.h"

/* Better ones are greater. */
enum frame_class {
	FRAME_UNKNOWN,   /* nothing to show */
	FRAME_MACHINERY, /* named, but the allocator's own, or how threads begin */
	FRAME_OPERATOR,  /* the last one of these is meant, which called the others */
	FRAME_NODE,      /* of the graph of gradients */
	FRAME_NATIVE,
	FRAME_TORCH, /* Python inside of torch */
	FRAME_USER,
};

#define SHOWN_NAME 160
#define SHOWN_FILE 80

static const char *
base_name(const char *path)
{
	const char *base = path;

	for (; *path != '\0'; path++)
		if (*path == '/' || *path == '\\')
			base = path + 1;
	return base;
}

/* Whether a directory of the path is called torch. */
static bool
inside_torch(const char *path)
{
	for (const char *at = path; (at = strstr(at, "torch")) != NULL; at += 5) {
		bool begins = at == path || at[-1] == '/' || at[-1] == '\\';
		if (begins && (at[5] == '/' || at[5] == '\\'))
			return true;
	}
	return false;
}

static bool
is_python(const char *file)
{
	size_t length = strlen(file);

	return length > 3 && strcmp(file + length - 3, ".py") == 0;
}

/* C++ names may open with a return type, so the namespaces count at any word's begin,
 * up to the parameters. */
static bool
is_machinery(const char *name)
{
	static const char *const prefixes[] = { "torch::", "c10::",        "at::",
						"std::",   "operator new", "cudaMalloc" };
	size_t end = strcspn(name, "(");

	for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
		for (const char *at = name;
		     (at = strstr(at, prefixes[i])) != NULL && (size_t)(at - name) < end; at++)
			if (at == name || at[-1] == ' ')
				return true;
	return false;
}

/* The names between a thread's own function and its beginning, also wrong ones: the
 * unwinder takes the nearest symbol that a stripped library exports. */
static bool
begins_thread(const char *name)
{
	static const char *const names[] = {
		"clone",
		"__clone",
		"clone3",
		"__clone3",
		"start_thread",
		"_start",
		"_dl_start",
		"__libc_start_main",
		"__libc_start_call_main",
		"execute_native_thread_routine",
		"pthread_condattr_setpshared",
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static enum frame_class
classify_machinery(const char *name)
{
	static const char node[] = "torch::autograd::generated::", operator[] = "at::_ops::";

	if (strncmp(name, node, sizeof node - 1) == 0 && strstr(name, "::apply(") != NULL)
		return FRAME_NODE;
	return strncmp(name, operator, sizeof operator- 1) == 0 ? FRAME_OPERATOR : FRAME_MACHINERY;
}

static enum frame_class
classify(const char *name, const char *file)
{
	if (name[0] == '\0' || strcmp(name, "??") == 0)
		return FRAME_UNKNOWN;
	if (is_python(file))
		return inside_torch(file) ? FRAME_TORCH : FRAME_USER;
	if (file[0] == '<') /* Python code that is in no file */
		return FRAME_NATIVE;
	if (begins_thread(name))
		return FRAME_MACHINERY;
	return is_machinery(name) ? classify_machinery(name) : FRAME_NATIVE;
}

static uint32_t
text_field(const struct snapshot_fields *fields, enum snapshot_word key)
{
	const struct pickle_value *value = fields->at[key];

	return value != NULL && value->type == PICKLE_TEXT ? value->name : 0;
}

/* A line that is not one (0, or -1 as an unsigned number) is left out. */
static uint32_t
line_field(const struct snapshot_fields *fields)
{
	const struct pickle_value *value = fields->at[KEY_LINE];

	if (value == NULL || value->type != PICKLE_INT || value->negative || value->number > INT32_MAX)
		return 0;
	return (uint32_t)value->number;
}

/* The frame's dict becomes four words. */
static bool
digest_frame(struct snapshot_reader *sr, const struct snapshot_fields *of, const struct pickle_value *value)
{
	struct snapshot_fields fields;
	uint32_t name, file, line;
	struct pickle_object *object;

	snprintf(fields.place, sizeof fields.place, "a frame of %.48s", of->place);
	if (!snapshot_fields(sr, value, &fields))
		return false;
	name = text_field(&fields, KEY_NAME);
	file = text_field(&fields, KEY_FILENAME);
	line = line_field(&fields);
	object = value->object;
	pickle_object_clear(&sr->vm.store, object);
	object->use = USE_FRAME;
	object->word[0] = classify(snapshot_text(sr, name), snapshot_text(sr, file));
	object->word[1] = name;
	object->word[2] = file;
	object->word[3] = line;
	return true;
}

/* A clean text of at most `limit` bytes, cut at a character's begin. */
static void
cut(char *text, size_t limit)
{
	size_t length = strlen(trace_clean(text));

	if (length <= limit)
		return;
	length = limit - 3;
	while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
		length--;
	strcpy(text + length, "...");
}

static bool
name_frame(struct snapshot_reader *sr, const struct pickle_object *frame, trace_name *holder)
{
	char name[SHOWN_NAME + 8], file[SHOWN_FILE + 8], line[16] = "", text[SHOWN_NAME + SHOWN_FILE + 40];
	int length;

	snprintf(name, sizeof name, "%s", snapshot_text(sr, frame->word[1]));
	snprintf(file, sizeof file, "%s", base_name(snapshot_text(sr, frame->word[2])));
	if (frame->word[0] == FRAME_NODE || frame->word[0] == FRAME_OPERATOR)
		name[strcspn(name, "(")] = '\0'; /* the parameters tell them apart from nothing */
	cut(name, SHOWN_NAME);
	cut(file, SHOWN_FILE);
	if (frame->word[3] != 0)
		snprintf(line, sizeof line, ":%u", frame->word[3]);
	if (file[0] != '\0' && strcmp(file, "??") != 0)
		length = snprintf(text, sizeof text, "%s (%s%s)", name, file, line);
	else
		length = snprintf(text, sizeof text, "%s", name);
	if (trace_names_add(&sr->reader->names, text, (size_t)length, holder))
		return true;
	trace_no_memory(sr->reader);
	return false;
}

static bool
is_better(const struct pickle_object *frame, const struct pickle_object *best)
{
	if (best == NULL)
		return frame->word[0] > FRAME_UNKNOWN;
	return frame->word[0] > best->word[0] ||
	       (frame->word[0] == FRAME_OPERATOR && best->word[0] == FRAME_OPERATOR);
}

/* The best frame of a list, the first of its class (but see FRAME_OPERATOR). */
static bool
choose_frame(struct snapshot_reader *sr, const struct snapshot_fields *fields,
	     const struct pickle_object *list, const struct pickle_object **best)
{
	*best = NULL;
	for (uint32_t i = 0; i < list->count; i++) {
		const struct pickle_value *value = &list->item[i];
		bool known = value->type == PICKLE_DICT && value->object->use == USE_FRAME;
		if (!known && !snapshot_plain(value, PICKLE_DICT))
			return snapshot_refuse(sr, fields, "frame %u is not a dict of its own", i);
		if (!known && !digest_frame(sr, fields, value))
			return false;
		if (is_better(value->object, *best))
			*best = value->object;
		if (*best != NULL && (*best)->word[0] == FRAME_USER)
			break;
	}
	return true;
}

bool
snapshot_holder(struct snapshot_reader *sr, const struct snapshot_fields *fields,
		const struct pickle_value *frames, trace_name *holder)
{
	const struct pickle_object *best;

	*holder = 0;
	if (frames == NULL || frames->type == PICKLE_NONE)
		return true;
	if (frames->type == PICKLE_TAKEN ||
	    (frames->type == PICKLE_LIST && frames->object->use == USE_HOLDER)) {
		*holder = frames->type == PICKLE_TAKEN ? (trace_name)frames->number : frames->object->word[0];
		return true;
	}
	if (!snapshot_plain(frames, PICKLE_LIST))
		return snapshot_refuse(sr, fields, "\"frames\" is not a list of frames");
	frames->object->busy = true;
	if (!choose_frame(sr, fields, frames->object, &best))
		return false;
	if (best != NULL && !name_frame(sr, best, holder))
		return false;
	pickle_take(&sr->vm, frames->object, USE_HOLDER, *holder);
	return true;
}
