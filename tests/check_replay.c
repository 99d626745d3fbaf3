/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay engine on traces whose answers can be worked out by hand.
 */
#include "tests/replay_fixture.h"

/* What a trace reserves at most under a policy and a mode of completion. */
static uint64_t
peak_reserved(const char *lines, const char *policy, enum replay_complete complete)
{
	struct replay_options options = options_for(policy);
	struct replayed replayed;
	uint64_t peak;

	options.complete = complete;
	replay_lines(&replayed, lines, options);
	peak = replayed.result.peak_reserved;
	replayed_end(&replayed);
	return peak;
}

/* ---- the numbers --------------------------------------------------------- */

START_TEST(the_four_numbers_are_those_at_the_peak)
{
	struct replayed replayed;
	const struct replay_moment *moment = &replayed.result.at_peak;

	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,1000,a,,\n"
		     "2,,alloc,0,1,0x2000,3000,b,,\n"
		     "3,,free,0,1,0x1000,,,,\n"
		     "4,,alloc,0,1,0x3000,500,c,,\n",
		     options_for("cuda"));
	ck_assert_uint_eq(replayed.result.peak_live_requested, 4000);
	ck_assert_uint_eq(replayed.result.peak_event, 1);
	ck_assert_uint_eq(replayed.result.peak_reserved, 32 * MIB);
	ck_assert_uint_eq(moment->live_capacity, 4096);
	ck_assert_uint_eq(moment->rounding_waste, 96);
	ck_assert_uint_eq(moment->free_but_held, 32 * MIB - 4096);
	ck_assert_uint_eq(moment->largest_free, 32 * MIB - 4096);
	ck_assert_uint_eq(moment->stranded_by_stream, 0);
	replayed_end(&replayed);
}
END_TEST

START_TEST(counts_are_those_of_the_trace)
{
	struct replayed replayed;
	const struct replay_counts *counts = &replayed.result.counts;

	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,1000,a,,\n"
		     "2,,alloc,0,2,0x2000,3000,b,,\n"
		     "3,,mark,0,,,,begin,,\n"
		     "4,,alloc_failed,0,1,,99,,,\n"
		     "5,,free,0,1,0x1000,,,,\n",
		     options_for("cuda"));
	ck_assert_uint_eq(counts->events, 5);
	ck_assert_uint_eq(counts->allocs, 2);
	ck_assert_uint_eq(counts->frees, 1);
	ck_assert_uint_eq(counts->streams, 2);
	ck_assert_uint_eq(counts->segments, 1);
	ck_assert_uint_eq(counts->recorded_failed, 1);
	ck_assert_uint_eq(counts->failed, 0);
	ck_assert_uint_eq(counts->live_blocks, 1);
	ck_assert_uint_eq(counts->live_bytes, 3000);
	replayed_end(&replayed);
}
END_TEST

START_TEST(holders_are_those_at_the_peak_and_not_at_the_end)
{
	struct replayed replayed;
	const struct replay_result *result = &replayed.result;

	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,100,small,,\n"
		     "2,,alloc,0,1,0x2000,4000,big,,\n"
		     "3,,alloc,0,1,0x3000,200,small,,\n"
		     "4,,free,0,1,0x2000,,,,\n"
		     "5,,alloc,0,1,0x4000,50,late,,\n",
		     options_for("cuda"));
	ck_assert_uint_eq(result->holder_count, 2);
	ck_assert_str_eq(trace_name_text(replayed.reader, result->holders[0].name), "big");
	ck_assert_uint_eq(result->holders[0].bytes, 4000);
	ck_assert_uint_eq(result->holders[0].blocks, 1);
	ck_assert_str_eq(trace_name_text(replayed.reader, result->holders[1].name), "small");
	ck_assert_uint_eq(result->holders[1].bytes, 300);
	ck_assert_uint_eq(result->holders[1].blocks, 2);
	replayed_end(&replayed);
}
END_TEST

START_TEST(an_empty_trace_has_no_peak_and_no_parity)
{
	struct replayed replayed;

	replay_lines(&replayed, "", options_for(NULL));
	ck_assert_str_eq(replayed.result.policy->name, "cuda");
	ck_assert_uint_eq(replayed.result.peak_live_requested, 0);
	ck_assert(replayed.result.peak_event == REPLAY_AT_START);
	ck_assert(!replayed.result.parity.applies);
	ck_assert_uint_eq(replayed.result.holder_count, 0);
	replayed_end(&replayed);
}
END_TEST

/* ---- completion ---------------------------------------------------------- */

#define FREE_THEN_ALLOC                \
	"1,,alloc,0,1,0x1000,512,,,\n" \
	"2,,free,0,1,0x1000,,,,\n"

START_TEST(complete_free_takes_a_free_as_executed)
{
	const char *lines = FREE_THEN_ALLOC "4,,alloc,0,1,0x2000,512,,,\n";

	ck_assert_uint_eq(peak_reserved(lines, "strict", REPLAY_COMPLETE_FREE), 512);
}
END_TEST

START_TEST(complete_sync_waits_for_a_recorded_synchronisation)
{
	const char *without = FREE_THEN_ALLOC "4,,alloc,0,1,0x2000,512,,,\n";
	const char *other = FREE_THEN_ALLOC "3,,sync,0,2,,,,,\n4,,alloc,0,1,0x2000,512,,,\n";
	const char *same = FREE_THEN_ALLOC "3,,sync,0,1,,,,,\n4,,alloc,0,1,0x2000,512,,,\n";
	const char *device = FREE_THEN_ALLOC "3,,sync,0,2,,,,,device\n4,,alloc,0,1,0x2000,512,,,\n";

	ck_assert_uint_eq(peak_reserved(without, "strict", REPLAY_COMPLETE_SYNC), 1024);
	ck_assert_uint_eq(peak_reserved(other, "strict", REPLAY_COMPLETE_SYNC), 1024);
	ck_assert_uint_eq(peak_reserved(same, "strict", REPLAY_COMPLETE_SYNC), 512);
	ck_assert_uint_eq(peak_reserved(device, "strict", REPLAY_COMPLETE_SYNC), 512);
}
END_TEST

START_TEST(complete_never_does_not_even_synchronise)
{
	const char *lines = FREE_THEN_ALLOC "3,,sync,0,1,,,,,\n4,,alloc,0,1,0x2000,512,,,\n";

	ck_assert_uint_eq(peak_reserved(lines, "strict", REPLAY_COMPLETE_NEVER), 1024);
}
END_TEST

START_TEST(a_synchronisation_applies_the_release_threshold)
{
	struct replay_options options = options_for("strict");
	struct replayed replayed;
	const char *lines = "1,,alloc,0,1,0x1000,4096,,,\n"
			    "2,,free,0,1,0x1000,,,,\n"
			    "3,,sync,0,1,,,,,\n"
			    "4,,alloc,0,1,0x2000,512,,,\n"
			    "5,,alloc,0,1,0x3000,8192,,,\n";

	replay_lines(&replayed, lines, options);
	ck_assert_uint_eq(replayed.result.at_peak.reserved, 4096 + 8192 - 3584);
	replayed_end(&replayed);
	options.release_threshold = 0;
	replay_lines(&replayed, lines, options);
	ck_assert_uint_eq(replayed.result.at_peak.reserved, 512 + 8192);
	replayed_end(&replayed);
}
END_TEST

START_TEST(trim_releases_down_to_what_it_keeps)
{
	const char *lines = "1,,alloc,0,1,0x1000,4096,,,\n"
			    "2,,free,0,1,0x1000,,,,\n"
			    "3,,trim,0,,,1024,,,\n"
			    "4,,alloc,0,1,0x2000,8192,,,\n";

	ck_assert_uint_eq(peak_reserved(lines, "strict", REPLAY_COMPLETE_FREE), 8192);
}
END_TEST

/* ---- deferred frees ------------------------------------------------------ */

#define DEFERRED                            \
	"1,,alloc,0,1,0x1000,11534336,,,\n" \
	"2,,free,0,1,0x1000,,,,deferred\n"

START_TEST(pytorch_does_not_reuse_a_deferred_free_before_it_completes)
{
	const char *before = DEFERRED "3,,alloc,0,1,0x2000,11534336,,,\n"
				      "4,,free_completed,0,1,0x1000,,,,\n";
	const char *after = DEFERRED "3,,free_completed,0,1,0x1000,,,,\n"
				     "4,,alloc,0,1,0x2000,11534336,,,\n";

	ck_assert_uint_eq(peak_reserved(before, "pytorch", REPLAY_COMPLETE_FREE), 24 * MIB);
	ck_assert_uint_eq(peak_reserved(after, "pytorch", REPLAY_COMPLETE_FREE), 12 * MIB);
}
END_TEST

START_TEST(a_deferred_free_leaves_live_bytes_at_once)
{
	struct replayed replayed;

	replay_lines(&replayed, DEFERRED "3,,alloc,0,1,0x2000,600,,,\n", options_for("pytorch"));
	ck_assert_uint_eq(replayed.result.peak_live_requested, 11534336);
	ck_assert_uint_eq(replayed.result.counts.live_bytes, 600);
	replayed_end(&replayed);
}
END_TEST

START_TEST(under_sync_a_completed_free_still_waits_for_a_synchronisation)
{
	const char *without = DEFERRED "3,,free_completed,0,1,0x1000,,,,\n"
				       "5,,alloc,0,1,0x2000,11534336,,,\n";
	const char *with = DEFERRED "3,,free_completed,0,1,0x1000,,,,\n"
				    "4,,sync,0,1,,,,,\n"
				    "5,,alloc,0,1,0x2000,11534336,,,\n";

	ck_assert_uint_eq(peak_reserved(without, "pytorch", REPLAY_COMPLETE_SYNC), 24 * MIB);
	ck_assert_uint_eq(peak_reserved(with, "pytorch", REPLAY_COMPLETE_SYNC), 12 * MIB);
}
END_TEST

START_TEST(strict_does_not_reuse_a_deferred_free_before_it_completes)
{
	const char *before = DEFERRED "3,,alloc,0,1,0x2000,11534336,,,\n"
				      "4,,free_completed,0,1,0x1000,,,,\n";
	const char *after = DEFERRED "3,,free_completed,0,1,0x1000,,,,\n"
				     "4,,alloc,0,1,0x2000,11534336,,,\n";

	ck_assert_uint_eq(peak_reserved(before, "strict", REPLAY_COMPLETE_FREE), 22 * MIB);
	ck_assert_uint_eq(peak_reserved(after, "strict", REPLAY_COMPLETE_FREE), 11 * MIB);
}
END_TEST

START_TEST(a_completion_after_its_stream_is_gone_is_fine)
{
	const char *lines = "1,,alloc,0,1,0x1000,512,,,\n"
			    "2,,alloc,0,1,0x2000,512,,,\n"
			    "3,,free,0,1,0x1000,,,,deferred\n"
			    "4,,free,0,1,0x2000,,,,\n"
			    "5,,stream_destroy,0,1,,,,,\n"
			    "6,,free_completed,0,1,0x1000,,,,\n";

	ck_assert_uint_eq(peak_reserved(lines, "cuda", REPLAY_COMPLETE_FREE), 32 * MIB);
}
END_TEST

/* ---- streams ------------------------------------------------------------- */

/* A block of a whole segment, freed on stream 0, wanted on stream 5. */
#define HANDED_OVER                         \
	"1,,alloc,0,0,0x1000,33554432,,,\n" \
	"2,,free,0,0,0x1000,,,,\n"
#define WANTED "9,,alloc,0,5,0x2000,33554432,,,\n"

START_TEST(stream_0_is_ordered_by_events_alone_unless_streams_are_said_to_be_blocking)
{
	const char *plain = HANDED_OVER WANTED;
	const char *blocking = "0,,stream_create,0,5,,,,,blocking\n" HANDED_OVER WANTED;
	const char *other = "0,,stream_create,0,5,,,,,non_blocking\n" HANDED_OVER WANTED;

	ck_assert_uint_eq(peak_reserved(plain, "cuda", REPLAY_COMPLETE_SYNC), 64 * MIB);
	ck_assert_uint_eq(peak_reserved(other, "cuda", REPLAY_COMPLETE_SYNC), 64 * MIB);
	ck_assert_uint_eq(peak_reserved(blocking, "cuda", REPLAY_COMPLETE_SYNC), 32 * MIB);
}
END_TEST

START_TEST(a_waited_for_event_carries_a_free_to_another_stream)
{
	const char *waited = HANDED_OVER "3,,record,0,0,0x77,,,,\n4,,wait,0,5,0x77,,,,\n" WANTED;
	const char *unwaited = HANDED_OVER "3,,record,0,0,0x77,,,,\n" WANTED;
	const char *early = "0,,record,0,0,0x77,,,,\n" HANDED_OVER "4,,wait,0,5,0x77,,,,\n" WANTED;

	ck_assert_uint_eq(peak_reserved(waited, "cuda", REPLAY_COMPLETE_SYNC), 32 * MIB);
	ck_assert_uint_eq(peak_reserved(unwaited, "cuda", REPLAY_COMPLETE_SYNC), 64 * MIB);
	ck_assert_uint_eq(peak_reserved(early, "cuda", REPLAY_COMPLETE_SYNC), 64 * MIB);
}
END_TEST

START_TEST(waiting_for_an_event_that_was_never_recorded_is_counted)
{
	struct replayed replayed;

	replay_lines(&replayed, HANDED_OVER "4,,wait,0,5,0x78,,,,\n" WANTED, options_for("cuda"));
	ck_assert_uint_eq(replayed.result.counts.unknown_events, 1);
	replayed_end(&replayed);
}
END_TEST

START_TEST(what_other_streams_keep_is_stranded)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,600,,,\n"
		     "2,,alloc,0,2,0x2000,1048576,,,\n",
		     options_for("pytorch"));
	ck_assert_uint_eq(replayed.result.at_peak.reserved, 4 * MIB);
	ck_assert_uint_eq(replayed.result.at_peak.stranded_by_stream, 2 * MIB - 1024);
	ck_assert_uint_eq(replayed.result.at_peak.free_but_held, 3 * MIB - 1024);
	replayed_end(&replayed);
}
END_TEST

/* ---- what traces say wrongly --------------------------------------------- */

START_TEST(frees_of_unknown_blocks_are_counted_and_the_first_is_named)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,free,0,1,0xabc000,,,,\n"
		     "2,,alloc,0,1,0x1000,600,,,\n"
		     "3,,free,0,1,0x1000,,,,\n"
		     "4,,free,0,1,0x1000,,,,\n"
		     "5,,free,0,1,0x0,,,,\n",
		     options_for("cuda"));
	ck_assert_uint_eq(replayed.result.counts.unknown_frees, 2);
	ck_assert_uint_eq(replayed.result.first_unknown_event, 0);
	ck_assert_uint_eq(replayed.result.first_unknown_ptr, 0xabc000);
	ck_assert_uint_eq(replayed.result.counts.frees, 4);
	replayed_end(&replayed);
}
END_TEST

START_TEST(an_address_that_is_allocated_again_while_live_is_taken_as_freed)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,600,,,\n"
		     "2,,alloc,0,1,0x1000,700,,,\n"
		     "3,,alloc,0,1,0x2000,0,,,\n",
		     options_for("cuda"));
	ck_assert_uint_eq(replayed.result.counts.overwritten, 1);
	ck_assert_uint_eq(replayed.result.counts.ignored, 1);
	ck_assert_uint_eq(replayed.result.peak_live_requested, 700);
	ck_assert_uint_eq(replayed.result.counts.live_blocks, 1);
	replayed_end(&replayed);
}
END_TEST

START_TEST(what_is_counted_of_the_trace_does_not_depend_on_the_capacity)
{
	const char *lines = "1,,alloc,0,1,0x1000,600,,,\n"
			    "2,,free_completed,0,1,0x1000,,,,\n" /* before any free */
			    "3,,alloc,0,1,0x1000,700,,,\n"
			    "4,,free,0,1,0x1000,,,,deferred\n"
			    "5,,free,0,1,0x1000,,,,deferred\n"
			    "6,,free_completed,0,1,0x1000,,,,\n"
			    "7,,free,0,1,0x1000,,,,\n";
	struct replay_options options = options_for("strict");

	for (uint64_t capacity = 0; capacity < 2; capacity++) {
		struct replayed replayed;

		options.capacity = capacity;
		replay_lines(&replayed, lines, options);
		ck_assert_uint_eq(replayed.result.counts.failed, 2 * capacity);
		ck_assert_uint_eq(replayed.result.counts.overwritten, 1);
		ck_assert_uint_eq(replayed.result.counts.unknown_frees, 2);
		replayed_end(&replayed);
	}
}
END_TEST

START_TEST(what_was_there_at_the_start_is_where_the_trace_says)
{
	struct replayed replayed;
	const struct replay_result *result = &replayed.result;

	/* The second takes what 512 bytes round to; what frees 1024 bytes serves the last one. */
	replay_lines(&replayed,
		     ",,segment_alloc,0,1,0x200000,2097152,,,start;small\n"
		     ",,alloc,0,1,0x200000,600,a,,start;1024\n"
		     ",,alloc,0,1,0x200400,512,b,,start\n"
		     ",,alloc,0,1,0x200600,900,c,,start;1024;pending\n"
		     "1,,alloc,0,1,0x200a00,1000,d,,\n"
		     "2,,free,0,1,0x200000,,,,\n"
		     "3,,alloc,0,1,0x200000,700,d,,\n"
		     "4,,free_completed,0,1,0x200600,,,,\n"
		     "5,,alloc,0,1,0x200600,1024,d,,\n",
		     options_for(NULL));
	ck_assert_str_eq(result->policy->name, "pytorch");
	ck_assert_uint_eq(result->parity.recorded, 3);
	ck_assert_uint_eq(result->parity.reproduced, 3);
	ck_assert_uint_eq(result->counts.start_blocks, 3);
	ck_assert_uint_eq(result->counts.start_segments, 1);
	ck_assert_uint_eq(result->counts.events, 5);
	ck_assert_uint_eq(result->counts.unknown_frees, 0);
	ck_assert_uint_eq(result->peak_reserved, 2 * MIB);
	ck_assert_uint_eq(result->peak_live_requested, 512 + 1000 + 700 + 1024);
	ck_assert_uint_eq(result->peak_event, 4);
	replayed_end(&replayed);
}
END_TEST

START_TEST(a_start_that_cannot_have_been_is_refused_by_the_columns_of_its_lines)
{
	static const struct {
		const char *lines, *error;
	} cases[] = {
		{ ",,segment_alloc,0,0,0x201,2097152,,,start\n",
		  "the segment at 0x201: \"ptr\" is not a multiple of the block alignment, or 0" },
		{ ",,segment_alloc,0,0,0x200,2097153,,,start\n",
		  "the segment at 0x200: \"size\" is not a multiple of the block alignment, or 0" },
		{ ",,segment_alloc,0,0,0x200,2097152,,,start\n,,alloc,0,0,0x201,512,,,start\n",
		  "the block at 0x201: \"ptr\" is not a multiple of the block alignment" },
		{ ",,segment_alloc,0,0,0x200,2097152,,,start\n,,alloc,0,0,0x200,1024,,,start;512\n",
		  "the block at 0x200: \"size\" is greater than what it takes" },
		/* What the second one leaves of what the first one rounds to. */
		{ ",,segment_alloc,0,0,0x200,2097152,,,start\n,,alloc,0,0,0x200,600,,,start\n"
		  ",,alloc,0,0,0x500,600,,,start\n",
		  "the block at 0x200: what it takes is not a multiple of the block alignment" },
		{ ",,segment_map,0,0,0x200000,2097152,,,start\n,,alloc,0,0,0x200000,512,,,start\n",
		  "before the first event: the segment at 0x200000 of 2097152 bytes cannot have been there: "
		  "expected "
		  "whole units of 20 MiB" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct replayed replayed;
		char lines[512];

		snprintf(lines, sizeof lines, "%s1,,alloc,0,0,0x1000,512,,,\n", cases[i].lines);
		replay_lines_raw(&replayed, lines, options_for(NULL));
		ck_assert_int_eq(replayed.status, SOMA_STATUS_NOT_SUPPORTED);
		ck_assert_msg(strncmp(replayed.error.text, cases[i].error, strlen(cases[i].error)) == 0,
			      "%zu: %s", i, replayed.error.text);
		replayed_end(&replayed);
	}
}
END_TEST

UNIT_MAIN("replay", what_was_there_at_the_start_is_where_the_trace_says,
	  a_start_that_cannot_have_been_is_refused_by_the_columns_of_its_lines,
	  the_four_numbers_are_those_at_the_peak, counts_are_those_of_the_trace,
	  holders_are_those_at_the_peak_and_not_at_the_end, an_empty_trace_has_no_peak_and_no_parity,
	  complete_free_takes_a_free_as_executed, complete_sync_waits_for_a_recorded_synchronisation,
	  complete_never_does_not_even_synchronise, a_synchronisation_applies_the_release_threshold,
	  trim_releases_down_to_what_it_keeps, pytorch_does_not_reuse_a_deferred_free_before_it_completes,
	  a_deferred_free_leaves_live_bytes_at_once,
	  under_sync_a_completed_free_still_waits_for_a_synchronisation,
	  strict_does_not_reuse_a_deferred_free_before_it_completes,
	  a_completion_after_its_stream_is_gone_is_fine,
	  stream_0_is_ordered_by_events_alone_unless_streams_are_said_to_be_blocking,
	  a_waited_for_event_carries_a_free_to_another_stream,
	  waiting_for_an_event_that_was_never_recorded_is_counted, what_other_streams_keep_is_stranded,
	  frees_of_unknown_blocks_are_counted_and_the_first_is_named,
	  an_address_that_is_allocated_again_while_live_is_taken_as_freed,
	  what_is_counted_of_the_trace_does_not_depend_on_the_capacity)
