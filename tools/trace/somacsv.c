/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soma's own trace: one event a line, see soma-trace(5).  Written by writer.c.
 */
#include <string.h>

#include "tools/trace/csv.h"
#include "tools/trace/memory.h"
#include "tools/trace/somacsv.h"

const char *const trace_soma_columns[TRACE_SOMA_COLUMNS] = {
	"time", "thread", "op", "device", "stream", "ptr", "size", "tag", "generation", "detail",
};

enum column { TIME, THREAD, OP, DEVICE, STREAM, PTR, SIZE, TAG, GENERATION, DETAIL };

struct soma_reader {
	struct csv csv;
	trace_name last_tag; /* the same again, mostly */
};

static bool
soma_probe(const uint8_t *data, size_t size)
{
	return csv_probe(data, size, trace_soma_columns);
}

static enum trace_result
soma_rewind(struct trace_reader *reader)
{
	struct soma_reader *soma = reader->state;

	csv_init(&soma->csv, reader);
	return csv_header(&soma->csv, trace_soma_columns, TRACE_SOMA_COLUMNS);
}

static enum trace_result
soma_open(struct trace_reader *reader)
{
	reader->state = trace_zeroed(sizeof(struct soma_reader));
	return reader->state != NULL ? soma_rewind(reader) : trace_no_memory(reader);
}

static void
soma_close(struct trace_reader *reader)
{
	trace_release(reader->state);
}

static enum trace_result
read_number(struct soma_reader *soma, enum column column, uint64_t limit, uint64_t *number)
{
	return csv_number_field(&soma->csv, trace_soma_columns[column], limit, number);
}

static enum trace_result
read_op(struct soma_reader *soma, enum trace_op *op)
{
	static const struct {
		const char *text;
		size_t length;
	} ops[] = {
#define X(name, text) { text, sizeof text - 1 },
		TRACE_OP_MAP(X)
#undef X
	};
	struct csv_field field;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[OP], &field);

	if (result != TRACE_OK)
		return result;
	for (size_t i = 0; i < TRACE_OP_COUNT; i++) {
		if (csv_is(&field, ops[i].text, ops[i].length)) {
			*op = (enum trace_op)i;
			return TRACE_OK;
		}
	}
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

static enum trace_result
read_tag(struct soma_reader *soma, trace_name *name)
{
	const struct trace_text *last = &soma->csv.reader->names.text[soma->last_tag];
	struct csv_field field;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[TAG], &field);

	if (result != TRACE_OK || field.length == 0)
		return result;
	if (!csv_is(&field, last->text, last->length)) {
		result = intern(soma, TAG, &field, &soma->last_tag);
		if (result != TRACE_OK)
			return result;
	}
	*name = soma->last_tag;
	return TRACE_OK;
}

/* In a free, "deferred" alone or before a semicolon is the flag and no text. */
static enum trace_result
read_detail(struct soma_reader *soma, struct trace_event *event)
{
	const size_t length = sizeof TRACE_SOMA_DEFERRED - 1;
	struct csv_field field;
	enum trace_result result = csv_field(&soma->csv, trace_soma_columns[DETAIL], &field);

	if (result != TRACE_OK || field.length == 0)
		return result;
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
	return result == TRACE_OK ? read_detail(soma, event) : result;
}

static enum trace_result
soma_next(struct trace_reader *reader, struct trace_event *event)
{
	struct soma_reader *soma = reader->state;
	enum trace_result result = csv_record(&soma->csv);

	if (result == TRACE_OK)
		result = read_columns(soma, event);
	return result == TRACE_OK ? csv_end(&soma->csv, TRACE_SOMA_COLUMNS) : result;
}

const struct trace_format trace_format_soma = {
	.name = "soma-csv",
	.hint = "a soma trace (time,thread,op,...)",
	.has_addresses = true,
	.probe = soma_probe,
	.open = soma_open,
	.next = soma_next,
	.rewind = soma_rewind,
	.close = soma_close,
};
