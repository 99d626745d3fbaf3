/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soma's own trace: one event a line, see soma-trace(5).  Written by writer.c.
 *
 * There are two ways to read a line.  The short one knows plain lines as writers make
 * them; whatever it does not expect, it leaves to the long one, which also knows what to
 * say about it.
 */
#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/memory.h"
#include "tools/trace/somacsv.h"
#include "tools/trace/somastart.h"

const char *const trace_soma_columns[TRACE_SOMA_COLUMNS_POOLS] = {
	"time", "thread", "op", "device", "stream", "ptr", "size", "tag", "generation", "detail", "pool",
};

enum column { TIME, THREAD, OP, DEVICE, STREAM, PTR, SIZE, TAG, GENERATION, DETAIL, POOL };

#define TAGS 256

struct soma_reader {
	struct csv csv;
	size_t columns;
	trace_name tag[TAGS]; /* those seen lately, by a few of their bytes */

	bool is_start; /* the present line says what was there before the first event: */
	struct soma_start_words words;
	struct soma_start start;
	bool start_known; /* from an earlier pass */
	/* The first event, which had to be read to find where the start ends. */
	bool has_first;
	struct trace_event first;
	enum trace_result first_result;
};

static bool
soma_probe(const uint8_t *data, size_t size)
{
	return csv_probe(data, size, trace_soma_columns);
}

/* The last column may be missing. */
static enum trace_result
read_header(struct soma_reader *soma)
{
	struct csv *csv = &soma->csv;
	struct csv_field field;
	enum trace_result result = csv_record(csv);

	for (soma->columns = 0; result == TRACE_OK && (soma->columns < TRACE_SOMA_COLUMNS || csv->more);
	     soma->columns++) {
		if (soma->columns == TRACE_SOMA_COLUMNS_POOLS)
			return csv_end(csv, soma->columns);
		result = csv_field(csv, trace_soma_columns[soma->columns], &field);
		if (result == TRACE_OK && !csv_is(&field, trace_soma_columns[soma->columns],
						  strlen(trace_soma_columns[soma->columns])))
			result = csv_expected(csv, "its name", trace_soma_columns[soma->columns], &field);
	}
	return result;
}

static enum trace_result
read_number(struct soma_reader *soma, enum column column, uint64_t limit, uint64_t *number)
{
	return csv_number_field(&soma->csv, trace_soma_columns[column], limit, number);
}

static bool
find_op(const struct csv_field *field, enum trace_op *op)
{
	static const struct {
		const char *text;
		size_t length;
	} ops[] = {
#define X(name, text) { text, sizeof text - 1 },
		TRACE_OP_MAP(X)
#undef X
	};

	for (size_t i = 0; i < TRACE_OP_COUNT; i++) {
		if (csv_is(field, ops[i].text, ops[i].length)) {
			*op = (enum trace_op)i;
			return true;
		}
	}
	return false;
}

static enum trace_result
read_op(struct soma_reader *soma, enum trace_op *op)
{
	struct csv_field field;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[OP], &field);

	if (result != TRACE_OK || find_op(&field, op))
		return result;
	return csv_expected(&soma->csv, "an operation such as alloc or free", trace_soma_columns[OP], &field);
}

static enum trace_result
intern(struct soma_reader *soma, enum column column, const struct csv_field *field, trace_name *name)
{
	struct trace_reader *reader = soma->csv.reader;

	if (memchr(field->text, '\0', field->length) != NULL)
		return csv_expected(&soma->csv, "text without zero bytes", trace_soma_columns[column], field);
	if (!trace_names_add(&reader->names, field->text, field->length, name))
		return trace_no_memory(reader);
	return TRACE_OK;
}

/* A field of at least one byte. */
static enum trace_result
find_tag(struct soma_reader *soma, const struct csv_field *field, trace_name *name)
{
	const struct trace_names *names = &soma->csv.reader->names;
	const unsigned char *text = (const unsigned char *)field->text;
	size_t middle = field->length / 2;
	trace_name *known = &soma->tag[(text[0] + text[middle] * 7u + text[field->length - 1] * 31u +
					text[field->length - 1 - (middle > 0)] * 5u + field->length * 3u) %
				       TAGS];
	enum trace_result result = TRACE_OK;

	if (!csv_is(field, names->text[*known].text, names->text[*known].length))
		result = intern(soma, TAG, field, known);
	*name = *known;
	return result;
}

static enum trace_result
read_tag(struct soma_reader *soma, trace_name *name)
{
	struct csv_field field;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[TAG], &field);

	return result == TRACE_OK && field.length > 0 ? find_tag(soma, &field, name) : result;
}

/* In a free, "deferred" alone or before a semicolon is the flag and no text; "start" in others. */
static enum trace_result
find_detail(struct soma_reader *soma, struct csv_field field, struct trace_event *event)
{
	const size_t length = sizeof TRACE_SOMA_DEFERRED - 1;

	soma->is_start = soma_start_is(event->op, &field);
	/* Half a word may be another one. */
	if (soma->is_start && soma->csv.cut)
		return trace_truncated_line(soma->csv.reader, soma->csv.line);
	if (soma->is_start)
		return soma_start_read(&soma->csv, event->op, &field, &soma->words);
	if (event->op == TRACE_FREE && field.length >= length &&
	    memcmp(field.text, TRACE_SOMA_DEFERRED, length) == 0 &&
	    (field.length == length || field.text[length] == ';')) {
		size_t skip = field.length == length ? length : length + 1;
		event->deferred = true;
		field.text += skip;
		field.length -= skip;
	}
	return intern(soma, DETAIL, &field, &event->detail);
}

static enum trace_result
read_detail(struct soma_reader *soma, struct trace_event *event)
{
	struct csv_field field;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[DETAIL], &field);

	return result == TRACE_OK && field.length > 0 ? find_detail(soma, field, event) : result;
}

/* Two numbers with a colon between them. */
static enum trace_result
read_pool(struct soma_reader *soma, struct trace_event *event)
{
	struct csv_field field;
	const char *colon;
	size_t first;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[POOL], &field);

	if (result != TRACE_OK || field.length == 0)
		return result;
	colon = memchr(field.text, ':', field.length);
	first = colon != NULL ? (size_t)(colon - field.text) : 0;
	event->has_pool = colon != NULL && csv_number(field.text, first, &event->pool[0]) &&
			  csv_number(colon + 1, field.length - first - 1, &event->pool[1]);
	return event->has_pool ? TRACE_OK
			       : csv_expected(&soma->csv, "two numbers with a colon between them",
					      trace_soma_columns[POOL], &field);
}

static enum trace_result
read_columns(struct soma_reader *soma, struct trace_event *event)
{
	enum trace_result result = read_number(soma, TIME, UINT64_MAX, &event->time_ns);
	uint64_t thread = 0, device = 0;

	if (result == TRACE_OK)
		result = read_number(soma, THREAD, UINT32_MAX, &thread);
	if (result == TRACE_OK)
		result = read_op(soma, &event->op);
	if (result == TRACE_OK)
		result = read_number(soma, DEVICE, INT32_MAX, &device);
	if (result == TRACE_OK)
		result = read_number(soma, STREAM, UINT64_MAX, &event->stream);
	if (result == TRACE_OK)
		result = read_number(soma, PTR, UINT64_MAX, &event->ptr);
	if (result == TRACE_OK)
		result = read_number(soma, SIZE, UINT64_MAX, &event->size);
	if (result == TRACE_OK)
		result = read_tag(soma, &event->holder);
	if (result == TRACE_OK)
		result = read_number(soma, GENERATION, UINT64_MAX, &event->generation);
	event->thread = (uint32_t)thread;
	event->device = (int32_t)device;
	if (result == TRACE_OK)
		result = read_detail(soma, event);
	return result == TRACE_OK && soma->columns > POOL ? read_pool(soma, event) : result;
}

/* ---- the short way ---------------------------------------------------------------- */

/* Up to 18 decimal or 15 hexadecimal digits, or nothing, and a comma. */
static inline bool
short_number(const char **text, const char *end, uint64_t *number)
{
	const char *at = *text, *last;
	uint64_t value = 0;

	if (end - at > 2 && at[0] == '0' && at[1] == 'x') {
		last = end - at > 17 ? at + 17 : end;
		for (at += 2; at < last; at++) {
			unsigned digit = (unsigned char)*at - (unsigned)'0';

			if (digit > 9)
				digit = (unsigned char)*at - (unsigned)'a' < 6 ? (unsigned)(*at - 'a' + 10)
									       : 16;
			if (digit > 15)
				break;
			value = value << 4 | digit;
		}
		if (at == *text + 2)
			return false;
	} else {
		last = end - at > 18 ? at + 18 : end;
		for (; at < last && (unsigned char)*at - (unsigned)'0' <= 9; at++)
			value = value * 10 + ((unsigned char)*at - (unsigned)'0');
	}
	*number = value;
	*text = at + 1;
	return at < end && *at == ',';
}

static inline bool
short_field(const char **text, const char *end, struct csv_field *field)
{
	const char *comma = *text;

	while (comma < end && *comma != ',')
		comma++;
	field->text = (char *)(uintptr_t)*text;
	field->length = (size_t)(comma - *text);
	*text = comma + 1;
	return comma < end;
}

/* false: the long way, for an event that is zeroed again. */
static bool
read_short(struct soma_reader *soma, struct trace_event *event)
{
	const char *at = soma->csv.pos, *end = soma->csv.end;
	struct csv_field op, tag;
	uint64_t thread, device;

	if (soma->columns != TRACE_SOMA_COLUMNS || soma->csv.quoted || soma->csv.cut ||
	    !short_number(&at, end, &event->time_ns) || !short_number(&at, end, &thread) ||
	    !short_field(&at, end, &op) || !short_number(&at, end, &device) ||
	    !short_number(&at, end, &event->stream) || !short_number(&at, end, &event->ptr) ||
	    !short_number(&at, end, &event->size) || !short_field(&at, end, &tag) ||
	    !short_number(&at, end, &event->generation))
		return false;
	if (thread > UINT32_MAX || device > INT32_MAX || at != end || !find_op(&op, &event->op))
		return false;
	event->thread = (uint32_t)thread;
	event->device = (int32_t)device;
	return tag.length == 0 || find_tag(soma, &tag, &event->holder) == TRACE_OK;
}

/* The event is zeroed. */
static enum trace_result
read_line(struct soma_reader *soma, struct trace_event *event)
{
	enum trace_result result = csv_record(&soma->csv);

	soma->is_start = false;
	if (result == TRACE_OK && read_short(soma, event))
		return TRACE_OK;
	*event = (struct trace_event){ 0 };
	if (result == TRACE_OK)
		result = read_columns(soma, event);
	return result == TRACE_OK ? csv_end(&soma->csv, soma->columns) : result;
}

/* ---- one after the other ------------------------------------------------------------ */

static const char *
detail_of(const struct soma_reader *soma, const struct trace_event *event)
{
	return trace_name_text(soma->csv.reader, event->detail);
}

/* What goes wrong here is told where the first event would be. */
static void
read_start(struct soma_reader *soma)
{
	enum trace_result result;

	if (!soma->start_known)
		soma_start_clear(&soma->start);
	do {
		soma->first = (struct trace_event){ 0 };
		result = read_line(soma, &soma->first);
		if (result == TRACE_OK && soma->is_start && !soma->start_known)
			result = soma_start_put(&soma->start, &soma->csv, &soma->first, &soma->words);
	} while (result == TRACE_OK && soma->is_start);
	if (result != TRACE_ERROR && !soma->start_known &&
	    soma_start_check(&soma->start, &soma->csv) != TRACE_OK)
		result = TRACE_ERROR;
	if (result == TRACE_OK && soma->csv.cut &&
	    soma_start_might_be(&soma->start, soma->first.op, detail_of(soma, &soma->first)))
		result = trace_truncated_line(soma->csv.reader, soma->csv.line);
	soma->has_first = true;
	soma->first_result = result;
	soma->start_known = result != TRACE_ERROR;
	soma->csv.reader->snapshot = soma->start.snapshot.segment_count > 0 ? &soma->start.snapshot : NULL;
}

static enum trace_result
soma_rewind(struct trace_reader *reader)
{
	struct soma_reader *soma = reader->state;
	enum trace_result result;

	csv_init(&soma->csv, reader);
	soma->has_first = false;
	result = read_header(soma);
	if (result == TRACE_OK)
		read_start(soma);
	return result;
}

static enum trace_result
soma_open(struct trace_reader *reader)
{
	struct soma_reader *soma = trace_zeroed(sizeof *soma);

	reader->state = soma;
	return soma != NULL ? soma_rewind(reader) : trace_no_memory(reader);
}

static void
soma_close(struct trace_reader *reader)
{
	struct soma_reader *soma = reader->state;

	if (soma != NULL)
		soma_start_clear(&soma->start);
	trace_release(soma);
}

static enum trace_result
soma_next(struct trace_reader *reader, struct trace_event *event)
{
	struct soma_reader *soma = reader->state;
	enum trace_result result;

	if (soma->has_first) {
		soma->has_first = false;
		*event = soma->first;
		return soma->first_result;
	}
	result = read_line(soma, event);
	if (result == TRACE_OK && soma->is_start)
		return trace_fail_line(reader, soma->csv.line,
				       "what was there at the start stands before the first event");
	return result;
}

const struct trace_format trace_format_soma = {
	.name = "soma-csv",
	.hint = "a soma trace (time,thread,op,...)",
	.allocations = "lines with the op alloc",
	.has_addresses = true,
	.probe = soma_probe,
	.open = soma_open,
	.next = soma_next,
	.rewind = soma_rewind,
	.close = soma_close,
};
