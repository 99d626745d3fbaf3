/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the replay engine that need no trace: what was there before a trace
 * began, private pools, recorded segments, tables, holders, the series.
 */
#include "tests/replay_fixture.h"
#include "tools/engine/gaps.h"
#include "tools/engine/rewind.h"
#include "tools/engine/source.h"
#include "tools/engine/streams.h"
#include "tools/engine/survey.h"
#include "tools/engine/table.h"

#define BASE ((uint64_t)0x7f0000000000)

/* ---- rewinding ----------------------------------------------------------- */

struct rewound {
	struct survey survey;
	struct survey_device *device;
	struct start start;
};

static void
rewound_init(struct rewound *rewound)
{
	*rewound = (struct rewound){ .survey = { .rewinds = true } };
	rewound->device = survey_need(&rewound->survey, 0);
}

static void
rewound_fini(struct rewound *rewound)
{
	start_fini(&rewound->start);
	survey_fini(&rewound->survey);
}

static void
rebuild(struct rewound *rewound, const struct trace_segment *segments, size_t count)
{
	struct trace_snapshot snapshot = { .segment_count = count,
					   .segments = (struct trace_segment *)segments };

	start_rebuild(&rewound->start, rewound->device, &snapshot, soma_policy_preset("pytorch"));
}

static void
add_orphan(struct rewound *rewound, uint64_t ptr, uint64_t size)
{
	struct survey_device *device = rewound->device;

	device->orphans = realloc(device->orphans, (device->orphan_count + 1) * sizeof *device->orphans);
	device->orphans[device->orphan_count++] = (struct survey_orphan){ .ptr = ptr, .size = size };
}

static void
add_segment_event(struct rewound *rewound, uint64_t address, uint64_t size, bool at_start)
{
	struct survey_segment *segment = table_add(&rewound->device->segments, address);

	segment->size = size;
	segment->at_start = at_start;
	segment->stream = 7;
}

static struct trace_segment
segment_at(uint64_t address, uint64_t size, struct trace_block *blocks, size_t count)
{
	return (struct trace_segment){ .address = address,
				       .size = size,
				       .small = size == 2 * MIB,
				       .blocks = blocks,
				       .block_count = count };
}

START_TEST(starting_segments_are_the_final_ones_less_made_plus_freed)
{
	struct trace_segment final[] = { segment_at(BASE, 2 * MIB, NULL, 0),
					 segment_at(BASE + 2 * MIB, 2 * MIB, NULL, 0) };
	struct rewound rewound;

	rewound_init(&rewound);
	add_segment_event(&rewound, BASE, 2 * MIB, false);
	add_segment_event(&rewound, BASE + 64 * MIB, 2 * MIB, true);
	add_segment_event(&rewound, BASE + 32 * MIB, 20 * MIB, true);
	rebuild(&rewound, final, 2);
	ck_assert_uint_eq(rewound.start.segment_count, 3);
	ck_assert_uint_eq(rewound.start.segments[0].address, BASE + 2 * MIB);
	ck_assert_uint_eq(rewound.start.segments[0].pool, 0);
	ck_assert_uint_eq(rewound.start.segments[1].address, BASE + 32 * MIB);
	ck_assert_uint_eq(rewound.start.segments[1].pool, 1);
	ck_assert_uint_eq(rewound.start.segments[1].stream, 7);
	ck_assert_uint_eq(rewound.start.segments[2].address, BASE + 64 * MIB);
	ck_assert_uint_eq(rewound.start.segments[2].pool, 0);
	rewound_fini(&rewound);
}
END_TEST

START_TEST(starting_blocks_are_final_ones_without_an_allocation_and_those_of_unknown_frees)
{
	struct trace_block blocks[] = {
		{ .address = BASE, .size = 1024, .requested = 600, .state = TRACE_BLOCK_LIVE, .holder = 3 },
		{ .address = BASE + 1024, .size = 512, .requested = 512, .state = TRACE_BLOCK_LIVE },
		{ .address = BASE + 1536, .size = 2 * MIB - 1536, .state = TRACE_BLOCK_FREE },
	};
	struct trace_segment final = segment_at(BASE, 2 * MIB, blocks, 3);
	struct rewound rewound;

	rewound_init(&rewound);
	table_add(&rewound.device->live, BASE + 1024); /* allocated in the trace */
	add_orphan(&rewound, BASE + 4096, 700);
	rebuild(&rewound, &final, 1);
	ck_assert_uint_eq(rewound.start.block_count, 2);
	ck_assert_uint_eq(rewound.start.blocks[0].ptr, BASE);
	ck_assert_uint_eq(rewound.start.blocks[0].size, 600);
	ck_assert_uint_eq(rewound.start.blocks[0].capacity, 1024);
	ck_assert_uint_eq(rewound.start.blocks[0].holder, 3);
	ck_assert_uint_eq(rewound.start.blocks[1].ptr, BASE + 4096);
	ck_assert_uint_eq(rewound.start.blocks[1].size, 700);
	ck_assert_uint_eq(rewound.start.blocks[1].capacity, 1024);
	rewound_fini(&rewound);
}
END_TEST

START_TEST(a_remainder_too_small_to_split_belongs_to_the_block_before_it)
{
	struct trace_segment final = segment_at(BASE, 20 * MIB, NULL, 0);
	struct rewound rewound;

	rewound_init(&rewound);
	add_orphan(&rewound, BASE, 2 * MIB);                 /* a gap of 1 MiB behind it */
	add_orphan(&rewound, BASE + 3 * MIB, 2 * MIB);       /* a gap of more */
	add_orphan(&rewound, BASE + 6 * MIB + 512, 2 * MIB); /* up to the end: more */
	add_orphan(&rewound, BASE + 17 * MIB, 2 * MIB);      /* up to the end: 1 MiB */
	rebuild(&rewound, &final, 1);
	ck_assert_uint_eq(rewound.start.block_count, 4);
	ck_assert_uint_eq(rewound.start.blocks[0].capacity, 3 * MIB);
	ck_assert_uint_eq(rewound.start.blocks[1].capacity, 2 * MIB);
	ck_assert_uint_eq(rewound.start.blocks[2].capacity, 2 * MIB);
	ck_assert_uint_eq(rewound.start.blocks[3].capacity, 3 * MIB);
	rewound_fini(&rewound);
}
END_TEST

/* What a block of 2 MiB at the front of 20 MiB holds, when these events follow. */
static uint64_t
capacity_after(const char *lines)
{
	struct trace_segment final = segment_at(BASE, 20 * MIB, NULL, 0);
	struct rewound rewound;
	struct trace_reader *reader;
	struct trace_error error;
	uint64_t capacity;
	char path[64];

	rewound_init(&rewound);
	add_orphan(&rewound, BASE, 2 * MIB);
	rebuild(&rewound, &final, 1);
	write_lines(path, lines);
	ck_assert_int_eq(trace_open(path, NULL, &reader, &error), TRACE_OK);
	ck_assert_int_eq(gaps_find(&rewound.start, 0, soma_policy_preset("pytorch"), reader, &error),
			 TRACE_OK);
	capacity = rewound.start.blocks[0].capacity;
	trace_close(reader);
	unlink(path);
	rewound_fini(&rewound);
	return capacity;
}

START_TEST(the_first_allocation_behind_a_block_shows_where_it_ends)
{
	const char *near = "1,,alloc,0,0,0x7f0000280000,2097152,,,\n";
	const char *second =
		"1,,alloc,0,0,0x7f0000200000,524288,,,\n2,,alloc,0,0,0x7f0000280000,2097152,,,\n";
	const char *far = "1,,alloc,0,0,0x7f0000300200,2097152,,,\n";
	const char *freed = "1,,free,0,0,0x7f0000000000,,,,\n2,,alloc,0,0,0x7f0000280000,2097152,,,\n";
	const char *deferred =
		"1,,free,0,0,0x7f0000000000,,,,deferred\n2,,alloc,0,0,0x7f0000280000,2097152,,,\n";
	const char *completed = "1,,free,0,0,0x7f0000000000,,,,deferred\n"
				"2,,free_completed,0,0,0x7f0000000000,,,,\n"
				"3,,alloc,0,0,0x7f0000280000,2097152,,,\n";

	ck_assert_uint_eq(capacity_after(near), 2 * MIB + 512 * KIB);
	ck_assert_uint_eq(capacity_after(second), 2 * MIB);
	ck_assert_uint_eq(capacity_after(far), 2 * MIB);
	ck_assert_uint_eq(capacity_after(freed), 2 * MIB);
	ck_assert_uint_eq(capacity_after(deferred), 2 * MIB + 512 * KIB);
	ck_assert_uint_eq(capacity_after(completed), 2 * MIB);
}
END_TEST

START_TEST(blocks_outside_of_segments_or_over_others_are_not_taken)
{
	struct trace_segment final = segment_at(BASE, 2 * MIB, NULL, 0);
	struct rewound rewound;

	rewound_init(&rewound);
	add_orphan(&rewound, BASE - 512, 512);
	add_orphan(&rewound, BASE + 1024, 1024);
	add_orphan(&rewound, BASE + 1536, 512);
	add_orphan(&rewound, BASE + 2 * MIB - 512, 1024);
	add_orphan(&rewound, BASE + 3 * MIB, 512);
	rebuild(&rewound, &final, 1);
	ck_assert_uint_eq(rewound.start.block_count, 1);
	ck_assert_uint_eq(rewound.start.blocks[0].ptr, BASE + 1024);
	rewound_fini(&rewound);
}
END_TEST

START_TEST(a_final_pending_block_starts_as_pending)
{
	struct trace_block block = { .address = BASE, .size = 2 * MIB, .state = TRACE_BLOCK_PENDING };
	struct trace_segment final = segment_at(BASE, 2 * MIB, &block, 1);
	struct rewound rewound;

	rewound_init(&rewound);
	rebuild(&rewound, &final, 1);
	ck_assert_uint_eq(rewound.start.block_count, 1);
	ck_assert(rewound.start.blocks[0].pending);
	ck_assert_uint_eq(rewound.start.blocks[0].size, 2 * MIB);
	rewound_fini(&rewound);
}
END_TEST

/* ---- private pools ------------------------------------------------------- */

START_TEST(each_private_pool_is_a_group_and_the_default_pool_none)
{
	struct trace_segment segments[] = {
		{ .address = BASE + 6 * MIB, .size = 2 * MIB, .pool = { 0, 2 } },
		{ .address = BASE, .size = 2 * MIB },
		{ .address = BASE + 2 * MIB, .size = 2 * MIB, .pool = { 0, 1 } },
		{ .address = BASE + 4 * MIB, .size = 2 * MIB, .pool = { 0, 2 } },
	};
	struct trace_snapshot snapshot = { .segment_count = 4, .segments = segments };
	struct soma_model *model;
	struct streams streams;
	uint64_t plain, private, other;

	ck_assert_int_eq(soma_model_create(NULL, &model), SOMA_STATUS_OK);
	streams_init(&streams, model, false, 0, &snapshot);
	ck_assert_uint_eq(streams.group_count, 3);
	ck_assert_uint_eq(streams_group(&streams, BASE + 100), 0);
	ck_assert_uint_eq(streams_group(&streams, BASE + 4 * MIB), 1);
	ck_assert_uint_eq(streams_group(&streams, BASE + 8 * MIB - 1), 1);
	ck_assert_uint_eq(streams_group(&streams, BASE + 2 * MIB), 2);
	ck_assert_uint_eq(streams_group(&streams, BASE + 8 * MIB), 0);
	ck_assert_int_eq(streams_get(&streams, 0, 0, &plain), SOMA_STATUS_OK);
	ck_assert_int_eq(streams_get(&streams, 0, 2, &private), SOMA_STATUS_OK);
	ck_assert_uint_ne(plain, private);
	ck_assert_uint_eq(streams.seen, 1);
	ck_assert(streams_are_one(&streams, plain, private));
	ck_assert_int_eq(streams_get(&streams, 9, 1, &other), SOMA_STATUS_OK);
	ck_assert_uint_eq(streams.seen, 2);
	ck_assert(!streams_are_one(&streams, other, private));
	ck_assert_int_eq(streams_destroy(&streams, 0), SOMA_STATUS_OK);
	ck_assert(!streams_are_one(&streams, plain, private));
	streams_fini(&streams);
	soma_model_destroy(model);
}
END_TEST

/* ---- recorded segments --------------------------------------------------- */

static uint64_t
acquire(struct source *source, uint64_t stream, uint64_t size)
{
	struct soma_segment_source functions = source_functions(source);
	uint64_t address = 0;

	ck_assert_int_eq(functions.acquire(functions.context, stream, size, &address), SOMA_STATUS_OK);
	return address;
}

START_TEST(a_segment_on_offer_is_taken_by_its_stream_and_size)
{
	struct source source;

	source_init(&source, BASE + 64 * MIB);
	source_offer(&source, 1, BASE, 2 * MIB);
	source_offer(&source, 2, BASE + 2 * MIB, 2 * MIB);
	source_offer(&source, 2, BASE + 4 * MIB, 20 * MIB);
	ck_assert_uint_eq(acquire(&source, 2, 20 * MIB), BASE + 4 * MIB);
	ck_assert_uint_eq(acquire(&source, 2, 2 * MIB), BASE + 2 * MIB);
	ck_assert_uint_ge(acquire(&source, 2, 2 * MIB), BASE + 64 * MIB);
	ck_assert_uint_eq(acquire(&source, 1, 2 * MIB), BASE);
	ck_assert_uint_eq(source.reproduced, 3);
	source_fini(&source);
}
END_TEST

START_TEST(unrecorded_segments_avoid_recorded_addresses_wherever_those_are)
{
	struct source source;
	uint64_t high = SOMA_MODEL_ADDRESS_MAX - 4 * MIB, first;

	source_init(&source, SOMA_MODEL_ADDRESS_MAX);
	first = acquire(&source, 0, 2 * MIB);
	ck_assert_uint_le(first + 2 * MIB, high);
	ck_assert_uint_ge(acquire(&source, 0, 2 * MIB), first + 2 * MIB);
	source_fini(&source);
}
END_TEST

START_TEST(a_segment_is_not_given_while_the_model_holds_its_place)
{
	struct source source;
	struct soma_segment_source functions;

	source_init(&source, BASE + 64 * MIB);
	functions = source_functions(&source);
	source_adopted(&source, BASE, 20 * MIB);
	source_offer(&source, 1, BASE + 18 * MIB, 2 * MIB);
	ck_assert_uint_ge(acquire(&source, 1, 2 * MIB), BASE + 64 * MIB);
	functions.release(functions.context, BASE, 20 * MIB);
	source_offer(&source, 1, BASE + 18 * MIB, 2 * MIB);
	ck_assert_uint_eq(acquire(&source, 1, 2 * MIB), BASE + 18 * MIB);
	source_fini(&source);
}
END_TEST

/* Addresses that no event told of: the trace is not to be believed. */
START_TEST(unrecorded_segments_avoid_whatever_is_held_or_on_offer)
{
	struct source source;
	uint64_t first, second;

	source_init(&source, BASE);
	source_adopted(&source, BASE, 20 * MIB);
	source_offer(&source, 1, BASE + 22 * MIB, 2 * MIB);
	first = acquire(&source, 2, 2 * MIB);
	second = acquire(&source, 2, 4 * MIB);
	ck_assert_uint_eq(first, BASE + 20 * MIB);
	ck_assert_uint_ge(second, BASE + 24 * MIB);
	source_offer(&source, 1, second + 2 * MIB, 2 * MIB);
	ck_assert_uint_ge(acquire(&source, 1, 2 * MIB), BASE + 22 * MIB);
	ck_assert_uint_ge(acquire(&source, 1, 2 * MIB), second + 4 * MIB);
	source_fini(&source);
}
END_TEST

START_TEST(a_place_is_found_below_when_there_is_none_above)
{
	struct source source;
	uint64_t size = SOMA_MODEL_ADDRESS_MAX / 2, first;

	source_init(&source, SOMA_MODEL_ADDRESS_MAX / 2);
	source_adopted(&source, 4 * MIB, 2 * MIB);
	ck_assert_uint_eq(acquire(&source, 0, size), SOMA_MODEL_ADDRESS_MAX / 2);
	first = acquire(&source, 0, 2 * MIB);
	ck_assert_uint_eq(first, 2 * MIB);
	ck_assert_uint_eq(acquire(&source, 0, 4 * MIB), 6 * MIB);
	source_fini(&source);
}
END_TEST

START_TEST(of_two_offers_that_overlap_one_is_taken)
{
	struct source source;

	source_init(&source, BASE + 64 * MIB);
	source_offer(&source, 1, BASE, 2 * MIB);
	source_offer(&source, 1, BASE + MIB, 2 * MIB);
	ck_assert_uint_eq(acquire(&source, 1, 2 * MIB), BASE);
	ck_assert_uint_ge(acquire(&source, 1, 2 * MIB), BASE + 64 * MIB);
	source_fini(&source);
}
END_TEST

/* ---- containers ---------------------------------------------------------- */

struct number {
	struct table_key key;
	uint64_t value;
};

/* Against an array: keys collide, are removed and come back. */
START_TEST(a_table_holds_what_was_added_and_not_removed)
{
	enum { KEYS = 1000, STEPS = 200000 };
	static uint64_t expected[KEYS];
	struct table table;
	size_t cursor = 0, count = 0, found = 0;
	uint64_t random = 1;

	table_init(&table, sizeof(struct number));
	for (uint64_t step = 1; step <= STEPS; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		uint64_t key = (random >> 33) % KEYS;
		struct number *number = table_find(&table, key << 9);

		ck_assert_uint_eq(number != NULL ? number->value : 0, expected[key]);
		if (number != NULL) {
			table_remove(&table, number);
			expected[key] = 0;
		} else {
			number = table_add(&table, key << 9);
			number->value = expected[key] = step;
		}
	}
	for (size_t i = 0; i < KEYS; i++)
		count += expected[i] != 0;
	while (table_next(&table, &cursor) != NULL)
		found++;
	ck_assert_uint_eq(found, count);
	ck_assert_uint_eq(table.count, count);
	table_fini(&table);
}
END_TEST

START_TEST(holders_keep_what_they_had_at_the_latest_peak)
{
	struct holders holders = { 0 };
	struct holder_rank *ranks;
	size_t count;

	holders_add(&holders, 1, 100, 1);
	holders_add(&holders, 2, 50, 1);
	holders_mark_peak(&holders);
	holders_add(&holders, 2, 50, -1);
	holders_add(&holders, 2, 300, 1);
	holders_mark_peak(&holders);
	holders_add(&holders, 1, 100, -1);
	holders_add(&holders, 3, 10, 1);
	holders_add_always(&holders, 1, 5);
	ranks = holders_rank_at_peak(&holders, &count);
	ck_assert_uint_eq(count, 2);
	ck_assert_uint_eq(ranks[0].name, 2);
	ck_assert_uint_eq(ranks[0].bytes, 300);
	ck_assert_uint_eq(ranks[1].name, 1);
	ck_assert_uint_eq(ranks[1].bytes, 105);
	ck_assert_uint_eq(ranks[1].blocks, 2);
	ck_assert_int_eq(holders_now(&holders, 1).bytes, 5);
	free(ranks);
	holders_fini(&holders);
}
END_TEST

START_TEST(a_series_keeps_peaks_and_carries_values_over_gaps)
{
	struct holders holders = { 0 };
	struct series series;

	series_init(&series, 10, false, 0, 100);
	series.layers[0] = 1;
	series.layer_count = 1;
	holders_add(&holders, 1, 7, 1);
	series_reach(&series, 0, &holders);
	series_put(&series, 10, 20, &holders);
	series_reach(&series, 41, &holders);
	series_put(&series, 90, 100, &holders);
	holders_add(&holders, 1, 2, 1);
	series_reach(&series, 45, &holders);
	series_put(&series, 30, 60, &holders);
	series_finish(&series, &holders);
	ck_assert_uint_eq(series.columns[0].live, 10);
	ck_assert_uint_eq(series.columns[3].live, 10);
	ck_assert_uint_eq(series.columns[3].reserved, 20);
	ck_assert_uint_eq(series.columns[4].live, 90);
	ck_assert_uint_eq(series.columns[4].reserved, 100);
	ck_assert_uint_eq(series.columns[4].layer[0], 7);
	ck_assert_uint_eq(series.columns[5].live, 30);
	ck_assert_uint_eq(series.columns[9].live, 30);
	ck_assert_uint_eq(series.columns[9].layer[0], 9);
	series_fini(&series);
	holders_fini(&holders);
}
END_TEST

UNIT_MAIN("rewind", starting_segments_are_the_final_ones_less_made_plus_freed,
	  starting_blocks_are_final_ones_without_an_allocation_and_those_of_unknown_frees,
	  a_remainder_too_small_to_split_belongs_to_the_block_before_it,
	  the_first_allocation_behind_a_block_shows_where_it_ends,
	  blocks_outside_of_segments_or_over_others_are_not_taken, a_final_pending_block_starts_as_pending,
	  each_private_pool_is_a_group_and_the_default_pool_none,
	  a_segment_on_offer_is_taken_by_its_stream_and_size,
	  unrecorded_segments_avoid_recorded_addresses_wherever_those_are,
	  unrecorded_segments_avoid_whatever_is_held_or_on_offer,
	  a_place_is_found_below_when_there_is_none_above,
	  a_segment_is_not_given_while_the_model_holds_its_place, of_two_offers_that_overlap_one_is_taken,
	  a_table_holds_what_was_added_and_not_removed, holders_keep_what_they_had_at_the_latest_peak,
	  a_series_keeps_peaks_and_carries_values_over_gaps)
