/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expandable segments, rule by rule.  That all of them together are the recorded
 * allocator's, tests/check_expandable.py holds against whole recordings.
 */
#include <stdio.h>
#include <string.h>

#include "tests/replay_fixture.h"

#define BASE "0x7f0000000000"
#define UNITS_20(n) (UINT64_C(20) * MIB * (n))

static void
reproduced(const struct replayed *replayed, uint64_t addresses, uint64_t segments)
{
	const struct replay_parity *parity = &replayed->result.parity;

	ck_assert(replayed->result.expandable);
	ck_assert(parity->applies);
	ck_assert_uint_eq(parity->reproduced, addresses);
	ck_assert_uint_eq(parity->segments_reproduced, segments);
}

START_TEST(recorded_parts_are_followed_and_compared)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",2097152,,,\n"
		     "2,,alloc,0,1," BASE ",600,,,\n"
		     "3,,alloc,0,1,0x7f0000000400,600,,,\n"
		     "4,,segment_map,0,1,0x7e0000000000,41943040,,,\n"
		     "5,,alloc,0,1,0x7e0000000000,20971521,,,\n",
		     options_for(NULL));
	ck_assert_str_eq(replayed.result.policy->name, "pytorch");
	reproduced(&replayed, 3, 2);
	ck_assert_uint_eq(replayed.result.peak_reserved, 42 * MIB);
	replayed_end(&replayed);
}
END_TEST

START_TEST(another_place_than_the_recorded_one_is_a_difference)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",2097152,,,\n"
		     "2,,alloc,0,1," BASE ",600,,,\n"
		     "3,,segment_map,0,1,0x7f0000200000,2097152,,,\n"
		     "4,,alloc,0,1,0x7f0000200000,600,,,\n",
		     options_for(NULL));
	reproduced(&replayed, 1, 1);
	ck_assert_uint_eq(replayed.result.parity.segments_recorded, 2);
	ck_assert_uint_eq(replayed.result.parity.event, 3);
	ck_assert_uint_eq(replayed.result.parity.got_ptr, 0x7f0000000400);
	replayed_end(&replayed);
}
END_TEST

/* 30 MiB behind 15 of free memory: one unit of 20 MiB is mapped, and two would be apart. */
START_TEST(only_what_is_missing_behind_a_free_block_is_mapped)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",20971520,,,\n"
		     "2,,alloc,0,1," BASE ",5242880,,,\n"
		     "3,,segment_map,0,1,0x7f0001400000,20971520,,,\n"
		     "4,,alloc,0,1,0x7f0000500000,31457280,,,\n",
		     options_for(NULL));
	reproduced(&replayed, 2, 2);
	ck_assert_uint_eq(replayed.result.peak_reserved, UNITS_20(2));
	replayed_end(&replayed);
}
END_TEST

/* The free block in front is larger than the end of what is mapped, but the end could grow. */
START_TEST(the_end_of_the_range_is_used_last)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",20971520,,,\n"
		     "2,,alloc,0,1," BASE ",10485760,,,\n"
		     "3,,alloc,0,1,0x7f0000a00000,5242880,,,\n"
		     "4,,free,0,1," BASE ",,,,\n"
		     "5,,alloc,0,1," BASE ",4194304,,,\n",
		     options_for(NULL));
	reproduced(&replayed, 3, 1);
	replayed_end(&replayed);
}
END_TEST

START_TEST(whole_units_are_unmapped_for_want_of_room)
{
	struct replay_options options = options_for("pytorch");
	struct replayed replayed;

	options.capacity = UNITS_20(2);
	options.expandable = REPLAY_EXPANDABLE_ON;
	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,31457280,,,\n"
		     "2,,free,0,1,0x1000,,,,\n"
		     "3,,alloc,0,2,0x1000,31457280,,,\n",
		     options);
	ck_assert_uint_eq(replayed.result.counts.failed, 0);
	ck_assert_uint_eq(replayed.result.peak_reserved, UNITS_20(2));
	ck_assert(!replayed.result.parity.applies);
	replayed_end(&replayed);
	options.capacity = UNITS_20(2) - 1;
	replay_lines(&replayed, "1,,alloc,0,1,0x1000,31457280,,,\n", options);
	ck_assert_uint_eq(replayed.result.counts.failed, 1);
	ck_assert(replayed.result.oom.happened);
	ck_assert_uint_eq(replayed.result.oom.short_by, 1);
	replayed_end(&replayed);
}
END_TEST

START_TEST(a_deferred_free_keeps_its_memory_until_it_completes)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",2097152,,,\n"
		     "2,,alloc,0,1," BASE ",600,,,\n"
		     "3,,free,0,1," BASE ",600,,,deferred\n"
		     "4,,alloc,0,1,0x7f0000000400,600,,,\n"
		     "5,,free_completed,0,1," BASE ",600,,,\n"
		     "6,,alloc,0,1," BASE ",600,,,\n",
		     options_for(NULL));
	reproduced(&replayed, 3, 1);
	replayed_end(&replayed);
}
END_TEST

START_TEST(what_is_unmapped_may_be_mapped_again)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",20971520,,,\n"
		     "2,,alloc,0,1," BASE ",10485760,,,\n"
		     "3,,free,0,1," BASE ",,,,\n"
		     "4,,segment_unmap,0,1," BASE ",20971520,,,\n"
		     "5,,segment_map,0,1,0x7d0000000000,20971520,,,\n"
		     "6,,alloc,0,1,0x7d0000000000,10485760,,,\n",
		     options_for(NULL));
	reproduced(&replayed, 2, 2);
	ck_assert_uint_eq(replayed.result.counts.unreleased, 0);
	ck_assert_uint_eq(replayed.result.peak_reserved, UNITS_20(1));
	replayed_end(&replayed);
}
END_TEST

START_TEST(what_the_replay_uses_is_not_unmapped)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_map,0,1," BASE ",20971520,,,\n"
		     "2,,alloc,0,1," BASE ",10485760,,,\n"
		     "4,,segment_unmap,0,1," BASE ",20971520,,,\n"
		     "5,,segment_unmap,0,1,0x1,20971520,,,\n"
		     "6,,segment_unmap,0,1," BASE ",18446744073709551615,,,\n"
		     "7,,segment_map,0,1," BASE ",18446744073709551615,,,\n",
		     options_for(NULL));
	ck_assert_uint_eq(replayed.result.counts.unreleased, 3);
	ck_assert_uint_eq(replayed.result.counts.live_bytes, 10485760);
	replayed_end(&replayed);
}
END_TEST

START_TEST(without_them_the_same_allocations_take_segments_of_their_own)
{
	struct replay_options options = options_for("pytorch");
	struct replayed replayed;
	const char *lines = "1,,segment_map,0,1," BASE ",20971520,,,\n"
			    "2,,alloc,0,1," BASE ",18874368,,,\n"
			    "3,,segment_map,0,1,0x7f0001400000,20971520,,,\n"
			    "4,,alloc,0,1,0x7f0001200000,18874368,,,\n";

	replay_lines(&replayed, lines, options);
	reproduced(&replayed, 2, 2);
	ck_assert_uint_eq(replayed.result.peak_reserved, 40 * MIB);
	replayed_end(&replayed);
	options.expandable = REPLAY_EXPANDABLE_OFF;
	replay_lines(&replayed, lines, options);
	ck_assert(!replayed.result.expandable);
	ck_assert(!replayed.result.parity.applies);
	ck_assert_uint_eq(replayed.result.peak_reserved, 36 * MIB);
	replayed_end(&replayed);
	replay_lines(&replayed, lines, options_for("cuda"));
	ck_assert(!replayed.result.expandable);
	replayed_end(&replayed);
}
END_TEST

static uint64_t
next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Whatever a trace says, in whatever order: what is reserved holds what is live, and the
 * capacity is kept. */
START_TEST(any_sequence_of_events_is_survived)
{
	static const char *const ops[] = { "alloc",         "alloc",        "alloc",          "free",
					   "free",          "segment_map",  "segment_map",    "segment_unmap",
					   "segment_alloc", "segment_free", "free_completed", "oom",
					   "trim",          "sync" };
	static const uint64_t sizes[] = {
		1, 512, 600 * 1024, 2 * MIB, 20 * MIB, 40 * MIB, 41 * MIB, 3 * MIB
	};
	uint64_t random = 7;

	for (int run = 0; run < 400; run++) {
		struct replay_options options = options_for("pytorch");
		struct replayed replayed;
		char lines[16 * 1024];
		size_t used = 0;

		options.expandable = REPLAY_EXPANDABLE_ON;
		options.capacity = run % 3 == 0 ? 0 : 64 * MIB;
		options.complete = (enum replay_complete)(run % 2);
		for (int i = 0; i < 120; i++) {
			const char *op = ops[next_random(&random) % (sizeof ops / sizeof ops[0])];

			used += (size_t)snprintf(
				lines + used, sizeof lines - used, "%d,,%s,0,%d,0x%llx,%llu,,,%s\n", i, op,
				(int)(next_random(&random) % 3),
				(unsigned long long)(0x7f0000000000 + next_random(&random) % 40 * 2 * MIB),
				(unsigned long long)
					sizes[next_random(&random) % (sizeof sizes / sizeof sizes[0])],
				strcmp(op, "free") == 0 && next_random(&random) % 3 == 0 ? "deferred" : "");
		}
		replay_lines(&replayed, lines, options);
		ck_assert(options.capacity == 0 || replayed.result.peak_reserved <= options.capacity);
		ck_assert_uint_le(replayed.result.at_peak.live_requested,
				  replayed.result.at_peak.live_capacity);
		ck_assert_uint_le(replayed.result.at_peak.live_capacity, replayed.result.at_peak.reserved);
		ck_assert_uint_le(replayed.result.peak_live_requested, replayed.result.peak_reserved);
		replayed_end(&replayed);
	}
}
END_TEST

UNIT_MAIN("expandable_rules", any_sequence_of_events_is_survived, recorded_parts_are_followed_and_compared,
	  another_place_than_the_recorded_one_is_a_difference,
	  only_what_is_missing_behind_a_free_block_is_mapped, the_end_of_the_range_is_used_last,
	  whole_units_are_unmapped_for_want_of_room, a_deferred_free_keeps_its_memory_until_it_completes,
	  what_is_unmapped_may_be_mapped_again, what_the_replay_uses_is_not_unmapped,
	  without_them_the_same_allocations_take_segments_of_their_own)
