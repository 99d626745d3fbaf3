/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nsight Systems exports: databases made here, with the table as its versions have it,
 * and such as nobody should trust.
 */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check_trace_support.h"

#define TABLE                                                                                              \
	"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT NULL, "  \
	"deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, address INTEGER NOT NULL, pc INTEGER NOT " \
	"NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, "   \
	"name "                                                                                            \
	"TEXT, correlationId INTEGER, streamId INTEGER, localMemoryPoolAddress INTEGER);"
#define ROW(values) "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (" values ");"
/* start, process, device, context, address, pc, bytes, kind, operation, name, -, stream, - */
#define ALLOC \
	ROW("1000000000000000001, 16777216, 1, 1, 139637976727552, 0, 4096, 2, 0, 'weights', 5, 7, NULL")
#define FREE ROW("1000000000000000009, 16777216, 1, 1, 139637976727552, 0, 4096, 2, 1, NULL, 6, 7, NULL")

/* The bytes of a database that these statements make. */
static struct bytes
database_of(const char *statements)
{
	struct bytes bytes = { 0 };
	sqlite3 *database;
	sqlite3_int64 size;
	unsigned char *data;
	char *problem = NULL;

	ck_assert_int_eq(sqlite3_open(":memory:", &database), SQLITE_OK);
	sqlite3_exec(database, statements, NULL, NULL, &problem);
	ck_assert_msg(problem == NULL, "%s", problem);
	data = sqlite3_serialize(database, "main", &size, 0);
	ck_assert_ptr_nonnull(data);
	bytes_put(&bytes, data, (size_t)size);
	sqlite3_free(data);
	ck_assert_int_eq(sqlite3_close(database), SQLITE_OK);
	ck_assert_int_eq(sqlite3_shutdown(), SQLITE_OK);
	return bytes;
}

static struct events
read_database(const char *statements)
{
	struct bytes bytes = database_of(statements);
	struct events events = events_of(&bytes);

	bytes_free(&bytes);
	return events;
}

static void
refused(const char *statements, size_t count, const char *says)
{
	struct events events = read_database(statements);

	ck_assert_int_eq(events.result, TRACE_ERROR);
	ck_assert_uint_eq(events.count, count);
	ck_assert_msg(strstr(events.error.text, says) != NULL, "\"%s\" does not say \"%s\"",
		      events.error.text, says);
	events_free(&events);
}

START_TEST(rows_are_allocations_and_frees)
{
	struct events events = read_database(TABLE ALLOC FREE);
	const struct trace_event *event = events.event;

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_str_eq(trace_format(events.reader), "nsys-sqlite");
	ck_assert_uint_eq(events.count, 2);
	ck_assert_int_eq(event[0].op, TRACE_ALLOC);
	ck_assert_uint_eq(event[0].time_ns, 1000000000000000001);
	ck_assert_int_eq(event[0].device, 1);
	ck_assert_uint_eq(event[0].ptr, 139637976727552);
	ck_assert_uint_eq(event[0].size, 4096);
	ck_assert_uint_eq(event[0].stream, 7);
	ck_assert_uint_eq(event[0].thread, 1);
	ck_assert_str_eq(events_holder(&events, 0), "weights");
	ck_assert_int_eq(event[1].op, TRACE_FREE);
	ck_assert_uint_eq(event[1].ptr, event[0].ptr);
	ck_assert_int_eq(trace_rewind(events.reader, &events.error), TRACE_OK);
	events_drain(&events);
	ck_assert_uint_eq(events.count, 4);
	ck_assert(events_equal(&events.event[1], &events.event[3]));
	events_free(&events);
}
END_TEST

START_TEST(rows_may_stand_in_any_order)
{
	struct events events = read_database(TABLE FREE ALLOC);

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events.count, 2);
	ck_assert_int_eq(events.event[0].op, TRACE_ALLOC);
	events_free(&events);
}
END_TEST

START_TEST(memory_of_the_host_is_passed_over)
{
	struct events events =
		read_database(TABLE ROW("1, 1, 0, 1, 4096, 0, 10, 0, 0, NULL, 0, 0, 0")
				      ROW("2, 1, -1, 1, 8192, 0, 20, 1, 0, NULL, 0, -1, 0")
					      ROW("3, 1, 0, 1, 16384, 0, 30, 4, 0, NULL, 0, 0, 0"));

	ck_assert_uint_eq(events.count, 1);
	ck_assert_uint_eq(events.event[0].size, 30);
	ck_assert_str_eq(events_holder(&events, 0), "managed");
	events_free(&events);
}
END_TEST

START_TEST(addresses_of_two_processes_are_told_apart)
{
	struct events events =
		read_database(TABLE ROW("1, 16777216, 0, 1, 4096, 0, 10, 2, 0, NULL, 0, 0, 0")
				      ROW("2, 33554432, 0, 1, 4096, 0, 20, 2, 0, NULL, 0, 0, 0")
					      ROW("3, 16777216, 0, 1, 4096, 0, 10, 2, 1, NULL, 0, 0, 0"));

	ck_assert_uint_eq(events.count, 3);
	ck_assert_uint_ne(events.event[1].ptr, events.event[0].ptr);
	ck_assert_uint_eq(events.event[2].ptr, events.event[0].ptr);
	events_free(&events);
}
END_TEST

START_TEST(an_old_table_without_addresses_is_paired_by_size)
{
	struct events events = read_database(
		"CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (Start INT, DeviceId INT, Bytes INT, "
		"MemoryOperationType INT);"
		"INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 0, 64, 0), (2, 0, 64, 1);");

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events.count, 2);
	ck_assert_uint_eq(events.event[0].ptr, events.event[1].ptr);
	events_free(&events);
}
END_TEST

START_TEST(a_gzipped_database_is_unpacked)
{
	struct bytes plain = database_of(TABLE ALLOC FREE), packed = bytes_gzip(&plain);
	struct events events = events_of(&packed);

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events.count, 2);
	events_free(&events);
	bytes_free(&plain);
	bytes_free(&packed);
}
END_TEST

START_TEST(what_is_wrong_is_said_with_its_row)
{
	refused("CREATE TABLE other (a);", 0, "a database without a table CUDA_GPU_MEMORY_USAGE_EVENTS");
	refused("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, bytes INT);", 0,
		"expected a column memoryOperationType in table");
	refused(TABLE ALLOC ROW("2, 1, 0, 1, 4096, 0, 'many', 2, 0, NULL, 0, 0, 0"), 0,
		": row 1 of CUDA_GPU_MEMORY_USAGE_EVENTS: expected a whole number of 0 or more, in its range "
		"in column "
		"bytes, got \"many\"");
	refused(TABLE ROW("2, 1, 0, 1, 4096, 0, 8, 2, 0, NULL, 0, 0, 0")
			ROW("3, 1, 0, 1, 4096, 0, 8, 2, 2, NULL, 0, 0, 0"),
		1, ": row 2 of ");
	refused(TABLE ROW("2, 1, -1, 1, 4096, 0, 8, 2, 0, NULL, 0, 0, 0"), 0,
		"in column deviceId, got \"-1\"");
	refused(TABLE ROW("2, 1, 0, 1, 4096, 0, 1.5, 2, 0, NULL, 0, 0, 0"), 0, "in column bytes");
}
END_TEST

/* A database is a program where it has views: this one would never end. */
START_TEST(a_view_is_not_read)
{
	refused("CREATE VIEW CUDA_GPU_MEMORY_USAGE_EVENTS AS WITH RECURSIVE c(start) AS (SELECT 1 UNION ALL "
		"SELECT "
		"start + 1 FROM c) SELECT start, 1 AS bytes, 0 AS memoryOperationType FROM c;",
		0, "a database without a table CUDA_GPU_MEMORY_USAGE_EVENTS");
}
END_TEST

/* Nor one of those that are computed. */
START_TEST(a_generated_column_is_not_read)
{
	refused("CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, memoryOperationType INT, bytes INT AS "
		"(length(hex(zeroblob(20000000)))));INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 0);",
		0, "expected a column bytes");
}
END_TEST

static struct bytes
larger_database(void)
{
	return database_of(
		"PRAGMA page_size=512;" TABLE ALLOC FREE
		"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40) INSERT INTO "
		"CUDA_GPU_MEMORY_USAGE_EVENTS SELECT 1000000000000000010 + n, 1, 0, 1, 4096 * n, 0, 64, 2, "
		"0, "
		"'name ' || n, n, 0, NULL FROM c;");
}

START_TEST(a_truncated_database_gives_what_is_there)
{
	struct bytes bytes = larger_database();
	size_t most = 0;

	for (size_t size = 16; size < bytes.size; size += 16) {
		struct bytes part = { .data = bytes.data, .size = size };
		struct events events = events_of(&part);
		ck_assert(events.result != TRACE_END);
		if (events.count > 0)
			ck_assert_int_eq(events.result, TRACE_TRUNCATED);
		most = events.count > most ? events.count : most;
		events_free(&events);
	}
	ck_assert_uint_gt(most, 5);
	bytes_free(&bytes);
}
END_TEST

START_TEST(damaged_databases_are_read_or_refused)
{
	struct bytes bytes = larger_database();
	uint64_t random = 99;

	for (size_t i = 0; i < 5000; i++)
		check_changed(&bytes, &random);
	bytes_free(&bytes);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	struct bytes bytes = database_of(TABLE FREE ALLOC);

	check_every_allocation(&bytes);
	bytes_free(&bytes);
}
END_TEST

UNIT_MAIN("trace_nsys", rows_are_allocations_and_frees, rows_may_stand_in_any_order,
	  memory_of_the_host_is_passed_over, addresses_of_two_processes_are_told_apart,
	  an_old_table_without_addresses_is_paired_by_size, a_gzipped_database_is_unpacked,
	  what_is_wrong_is_said_with_its_row, a_view_is_not_read, a_generated_column_is_not_read,
	  a_truncated_database_gives_what_is_there, damaged_databases_are_read_or_refused,
	  every_allocation_may_fail)
