/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite export of Nsight Systems: the table CUDA_GPU_MEMORY_USAGE_EVENTS, which is
 * there when the profile was made with --cuda-memory-usage=true.
 *
 * Columns came and went with versions: all but three may be missing.  Memory of the host
 * (pageable, pinned) is not a device's and is passed over.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/trace/map.h"
#include "tools/trace/memory.h"
#include "tools/trace/pairs.h"
#include "tools/trace/sqlite.h"

#define TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"

enum column {
	START,
	BYTES,
	OPERATION,
	DEVICE,
	ADDRESS,
	KIND,
	STREAM,
	PROCESS,
	NAME,
	COLUMNS,
	REQUIRED = DEVICE
};

static const char *const column_names[COLUMNS] = {
	"start",   "bytes",    "memoryOperationType", "deviceId", "address",
	"memKind", "streamId", "globalPid",           "name",
};

enum kind { PAGEABLE, PINNED, DEVICE_MEMORY };

struct nsys_reader {
	struct trace_reader *reader;
	sqlite3 *database;
	sqlite3_stmt *rows;
	int place[COLUMNS]; /* of the column in a row, or -1 */
	uint64_t row;
	struct trace_map processes; /* number: how many were seen before */
	struct trace_pairs pairs;   /* for tables without addresses */
};

static bool
nsys_probe(const uint8_t *data, size_t size)
{
	static const char magic[] = "SQLite format 3";

	return size >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

/* A file that is shorter than its own header says is a truncated one. */
static bool
is_cut(const struct trace_reader *reader)
{
	const struct trace_input *in = &reader->input;
	uint8_t header[32];
	uint64_t page, pages;

	if (pread(in->fd, header, sizeof header, (off_t)in->start) != sizeof header)
		return true;
	page = (uint64_t)header[16] << 8 | header[17];
	pages = (uint64_t)header[28] << 24 | (uint64_t)header[29] << 16 | (uint64_t)header[30] << 8 |
		header[31];
	return pages * (page == 1 ? 65536 : page) > in->size;
}

static enum trace_result
truncated(struct nsys_reader *nsys)
{
	trace_fail(&nsys->reader->failure, nsys->reader->input.path,
		   "row %" PRIu64 ": the file ends in the middle of the database", nsys->row);
	return TRACE_TRUNCATED;
}

static enum trace_result
fail(struct nsys_reader *nsys, int status)
{
	struct trace_reader *reader = nsys->reader;
	char what[64];

	if (status == SQLITE_NOMEM)
		return trace_no_memory(reader);
	if (is_cut(reader))
		return truncated(nsys);
	snprintf(what, sizeof what, "row %" PRIu64 " of " TABLE, nsys->row);
	return trace_sqlite_fail(reader, status, what);
}

/* ---- opening ------------------------------------------------------------------ */

static enum trace_result
prepare(struct nsys_reader *nsys, const char *query, sqlite3_stmt **statement)
{
	int status = sqlite3_prepare_v2(nsys->database, query, -1, statement, NULL);

	return status == SQLITE_OK ? TRACE_OK : fail(nsys, status);
}

/* A view, or a table that is made by a module, is a program: neither is read. */
static enum trace_result
find_table(struct nsys_reader *nsys)
{
	sqlite3_stmt *statement;
	enum trace_result result = prepare(nsys,
					   "SELECT 1 FROM sqlite_schema WHERE name = '" TABLE
					   "' AND type = 'table' AND rootpage > 0",
					   &statement);
	int status;

	if (result != TRACE_OK)
		return result;
	status = sqlite3_step(statement);
	sqlite3_finalize(statement);
	if (status == SQLITE_ROW)
		return TRACE_OK;
	if (status != SQLITE_DONE)
		return fail(nsys, status);
	return trace_fail(&nsys->reader->failure, nsys->reader->input.path,
			  "a database without a table " TABLE
			  ", expected one that Nsight Systems exported from a profile with memory usage");
}

static enum trace_result
find_columns(struct nsys_reader *nsys)
{
	sqlite3_stmt *statement;
	enum trace_result result =
		prepare(nsys, "SELECT name FROM pragma_table_info('" TABLE "')", &statement);
	int status;

	memset(nsys->place, -1, sizeof nsys->place);
	if (result != TRACE_OK)
		return result;
	while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(statement, 0);

		for (int i = 0; name != NULL && i < COLUMNS; i++)
			if (sqlite3_stricmp(name, column_names[i]) == 0)
				nsys->place[i] = 0;
	}
	sqlite3_finalize(statement);
	if (status != SQLITE_DONE)
		return fail(nsys, status);
	for (int i = 0; i < REQUIRED; i++)
		if (nsys->place[i] < 0)
			return trace_fail(&nsys->reader->failure, nsys->reader->input.path,
					  "expected a column %s in table " TABLE, column_names[i]);
	return TRACE_OK;
}

/* Sorting takes a copy of the table: exports mostly are in order. */
static bool
is_sorted(struct nsys_reader *nsys)
{
	sqlite3_stmt *statement;
	bool sorted = true;

	if (sqlite3_prepare_v2(
		    nsys->database,
		    "SELECT 1 FROM (SELECT start AS s, lag(start) OVER (ORDER BY rowid) AS l FROM " TABLE
		    ") WHERE s < l LIMIT 1",
		    -1, &statement, NULL) == SQLITE_OK)
		sorted = sqlite3_step(statement) != SQLITE_ROW;
	sqlite3_finalize(statement);
	return sorted;
}

static enum trace_result
select_rows(struct nsys_reader *nsys)
{
	char query[512];
	size_t used = (size_t)snprintf(query, sizeof query, "SELECT ");
	int count = 0;

	for (int i = 0; i < COLUMNS; i++) {
		if (nsys->place[i] < 0)
			continue;
		used += (size_t)snprintf(query + used, sizeof query - used, "%s\"%s\"", count > 0 ? ", " : "",
					 column_names[i]);
		nsys->place[i] = count++;
	}
	snprintf(query + used, sizeof query - used, " FROM " TABLE " ORDER BY %srowid",
		 is_sorted(nsys) ? "" : "start, ");
	return prepare(nsys, query, &nsys->rows);
}

static enum trace_result
nsys_rewind(struct trace_reader *reader)
{
	struct nsys_reader *nsys = reader->state;

	sqlite3_reset(nsys->rows);
	trace_map_fini(&nsys->processes);
	trace_pairs_fini(&nsys->pairs);
	nsys->row = 0;
	return TRACE_OK;
}

static enum trace_result
nsys_open(struct trace_reader *reader)
{
	struct nsys_reader *nsys = trace_zeroed(sizeof *nsys);
	enum trace_result result;

	if (nsys == NULL)
		return trace_no_memory(reader);
	reader->state = nsys;
	nsys->reader = reader;
	result = trace_sqlite_open(reader, &nsys->database);
	if (result == TRACE_OK)
		result = find_table(nsys);
	if (result == TRACE_OK)
		result = find_columns(nsys);
	return result == TRACE_OK ? select_rows(nsys) : result;
}

static void
nsys_close(struct trace_reader *reader)
{
	struct nsys_reader *nsys = reader->state;

	if (nsys == NULL)
		return;
	sqlite3_finalize(nsys->rows);
	if (nsys->database != NULL)
		trace_sqlite_close(nsys->database);
	trace_map_fini(&nsys->processes);
	trace_pairs_fini(&nsys->pairs);
	trace_release(nsys);
}

/* ---- rows ------------------------------------------------------------------------ */

static enum trace_result
refuse(struct nsys_reader *nsys, enum column column, const char *what)
{
	/* What is missing in a row is zeros. */
	if (is_cut(nsys->reader))
		return truncated(nsys);
	return trace_fail(&nsys->reader->failure, nsys->reader->input.path,
			  "row %" PRIu64 " of " TABLE ": expected %s in column %s, got \"%.40s\"", nsys->row,
			  what, column_names[column],
			  sqlite3_column_type(nsys->rows, nsys->place[column]) == SQLITE_NULL
				  ? "NULL"
				  : (const char *)sqlite3_column_text(nsys->rows, nsys->place[column]));
}

/* NULL is 0, and so is a column that is not there. */
static enum trace_result
read_number(struct nsys_reader *nsys, enum column column, uint64_t limit, uint64_t *number)
{
	int place = nsys->place[column],
	    type = place >= 0 ? sqlite3_column_type(nsys->rows, place) : SQLITE_NULL;
	sqlite3_int64 value;

	*number = 0;
	if (type == SQLITE_NULL)
		return column < REQUIRED ? refuse(nsys, column, "a number") : TRACE_OK;
	value = sqlite3_column_int64(nsys->rows, place);
	if (type != SQLITE_INTEGER || value < 0 || (uint64_t)value > limit)
		return refuse(nsys, column, "a whole number of 0 or more, in its range");
	*number = (uint64_t)value;
	return TRACE_OK;
}

/* Another process may use the same addresses: theirs are told apart by their upper bits. */
static enum trace_result
read_process(struct nsys_reader *nsys, struct trace_event *event)
{
	struct trace_map_entry *entry;
	uint64_t process;
	enum trace_result result = read_number(nsys, PROCESS, INT64_MAX, &process);

	if (result != TRACE_OK)
		return result;
	entry = trace_map_find(&nsys->processes, process);
	if (entry == NULL) {
		uint64_t number = nsys->processes.count;

		entry = trace_map_need(&nsys->processes, process);
		if (entry == NULL)
			return trace_no_memory(nsys->reader);
		entry->number = number;
	}
	event->thread = (uint32_t)(process >> 24 & 0xffffff);
	event->ptr ^= entry->number << 52;
	return TRACE_OK;
}

static enum trace_result
read_name(struct nsys_reader *nsys, uint64_t kind, trace_name *holder)
{
	static const char *const kinds[] = {
		"", "", "", "array", "managed", "static device", "static managed"
	};
	const char *name = NULL;

	if (nsys->place[NAME] >= 0)
		name = (const char *)sqlite3_column_text(nsys->rows, nsys->place[NAME]);
	if (name == NULL || name[0] == '\0')
		name = kind < sizeof kinds / sizeof kinds[0] ? kinds[kind] : "";
	return trace_names_add(&nsys->reader->names, name, strlen(name), holder)
		       ? TRACE_OK
		       : trace_no_memory(nsys->reader);
}

static enum trace_result
read_place(struct nsys_reader *nsys, struct trace_event *event)
{
	enum trace_result result;

	if (nsys->place[ADDRESS] >= 0) {
		result = read_number(nsys, ADDRESS, INT64_MAX, &event->ptr);
		return result == TRACE_OK ? read_process(nsys, event) : result;
	}
	if (event->op == TRACE_ALLOC)
		return trace_pairs_alloc(&nsys->pairs, event) ? TRACE_OK : trace_no_memory(nsys->reader);
	trace_pairs_free(&nsys->pairs, event);
	return TRACE_OK;
}

static enum trace_result
read_device_row(struct nsys_reader *nsys, uint64_t kind, struct trace_event *event)
{
	uint64_t operation = 0, device = 0;
	enum trace_result result = read_number(nsys, START, INT64_MAX, &event->time_ns);

	if (result == TRACE_OK)
		result = read_number(nsys, OPERATION, 1, &operation);
	if (result == TRACE_OK)
		result = read_number(nsys, BYTES, TRACE_PAIRS_SIZE - 1, &event->size);
	if (result == TRACE_OK)
		result = read_number(nsys, DEVICE, TRACE_PAIRS_DEVICES - 1, &device);
	if (result == TRACE_OK)
		result = read_number(nsys, STREAM, INT64_MAX, &event->stream);
	if (result != TRACE_OK)
		return result;
	event->op = operation == 0 ? TRACE_ALLOC : TRACE_FREE;
	event->device = (int32_t)device;
	result = read_name(nsys, kind, &event->holder);
	return result == TRACE_OK ? read_place(nsys, event) : result;
}

/* *made: it is memory of a device.  What else stands in a row of the host's (a device?) says
 * nothing. */
static enum trace_result
read_row(struct nsys_reader *nsys, struct trace_event *event, bool *made)
{
	uint64_t kind = 0;
	enum trace_result result = read_number(nsys, KIND, INT64_MAX, &kind);

	*made = result == TRACE_OK && (nsys->place[KIND] < 0 || kind >= DEVICE_MEMORY);
	return *made ? read_device_row(nsys, kind, event) : result;
}

static enum trace_result
nsys_next(struct trace_reader *reader, struct trace_event *event)
{
	struct nsys_reader *nsys = reader->state;
	enum trace_result result = TRACE_OK;
	bool made = false;

	while (result == TRACE_OK && !made) {
		int status = sqlite3_step(nsys->rows);

		if (status == SQLITE_DONE)
			return is_cut(reader) ? truncated(nsys) : TRACE_END;
		nsys->row++;
		result = status == SQLITE_ROW ? read_row(nsys, event, &made) : fail(nsys, status);
		reader->passed_over += !made;
	}
	return result;
}

const struct trace_format trace_format_nsys = {
	.name = "nsys-sqlite",
	.hint = "an Nsight Systems export (SQLite)",
	.allocations = "rows of device memory in CUDA_GPU_MEMORY_USAGE_EVENTS (nsys profile "
		       "--cuda-memory-usage=true)",
	.others = "rows",
	.has_addresses = true,
	.probe = nsys_probe,
	.open = nsys_open,
	.next = nsys_next,
	.rewind = nsys_rewind,
	.close = nsys_close,
};
