/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replay engine's verdicts: why memory ran out, which recorded addresses were
 * reproduced, which device, what is refused.
 */
#include "tests/replay_fixture.h"
#include "tools/engine/moment.h"

/* ---- out of memory ------------------------------------------------------- */

static void
check_oom(const char *lines, const char *policy, uint64_t capacity, enum replay_complete complete,
	  struct replay_oom expected)
{
	struct replay_options options = options_for(policy);
	struct replayed replayed;
	const struct replay_oom *oom = &replayed.result.oom;

	options.capacity = capacity;
	options.complete = complete;
	replay_lines(&replayed, lines, options);
	ck_assert(oom->happened);
	ck_assert_uint_eq(oom->event, expected.event);
	ck_assert_uint_eq(oom->requested, expected.requested);
	ck_assert_str_eq(replay_oom_text(oom->reason), replay_oom_text(expected.reason));
	ck_assert_uint_eq(oom->short_by, expected.short_by);
	ck_assert_uint_le(replayed.result.peak_reserved, capacity);
	replayed_end(&replayed);
}

START_TEST(more_than_the_capacity_is_truly_too_big)
{
	check_oom("1,,alloc,0,1,0x1000,4096,,,\n2,,alloc,0,1,0x2000,8192,,,\n", "strict", 10240,
		  REPLAY_COMPLETE_FREE,
		  (struct replay_oom){
			  .event = 1, .requested = 8192, .reason = REPLAY_OOM_TOO_BIG, .short_by = 2048 });
}
END_TEST

START_TEST(free_bytes_in_pieces_are_fragmentation)
{
	check_oom(
		"1,,alloc,0,1,0x1000,512,,,\n"
		"2,,alloc,0,1,0x2000,512,,,\n"
		"3,,alloc,0,1,0x3000,512,,,\n"
		"4,,free,0,1,0x1000,,,,\n"
		"5,,free,0,1,0x3000,,,,\n"
		"6,,alloc,0,1,0x4000,1024,,,\n",
		"strict", 1536, REPLAY_COMPLETE_FREE,
		(struct replay_oom){
			.event = 5, .requested = 1024, .reason = REPLAY_OOM_FRAGMENTATION, .short_by = 512 });
}
END_TEST

START_TEST(free_bytes_of_another_stream_are_stranded)
{
	check_oom("1,,alloc,0,1,0x1000,512,,,\n2,,alloc,0,2,0x2000,512,,,\n", "pytorch", 2 * MIB,
		  REPLAY_COMPLETE_FREE,
		  (struct replay_oom){
			  .event = 1, .requested = 512, .reason = REPLAY_OOM_STRANDED, .short_by = 2 * MIB });
}
END_TEST

START_TEST(frees_that_have_not_executed_are_named)
{
	check_oom("1,,alloc,0,1,0x1000,1024,,,\n2,,free,0,1,0x1000,,,,\n3,,alloc,0,1,0x2000,1024,,,\n",
		  "strict", 1024, REPLAY_COMPLETE_NEVER,
		  (struct replay_oom){
			  .event = 2, .requested = 1024, .reason = REPLAY_OOM_PENDING, .short_by = 1024 });
}
END_TEST

START_TEST(a_segment_larger_than_the_capacity_is_named)
{
	check_oom(
		"1,,alloc,0,1,0x1000,1000,,,\n", "cuda", 16 * MIB, REPLAY_COMPLETE_FREE,
		(struct replay_oom){
			.event = 0, .requested = 1000, .reason = REPLAY_OOM_SEGMENT, .short_by = 16 * MIB });
	check_oom("1,,alloc,0,1,0x1000,1000,,,\n2,,alloc,0,1,0x1000000,1048577,,,\n", "pytorch", 16 * MIB,
		  REPLAY_COMPLETE_FREE,
		  (struct replay_oom){ .event = 1,
				       .requested = 1048577,
				       .reason = REPLAY_OOM_SEGMENT,
				       .short_by = 6 * MIB });
	check_oom("1,,alloc,0,1,0x1000,1000,,,\n2,,alloc,0,1,0x1000000,16777216,,,\n", "pytorch", 16 * MIB,
		  REPLAY_COMPLETE_FREE,
		  (struct replay_oom){ .event = 1,
				       .requested = 16 * MIB,
				       .reason = REPLAY_OOM_TOO_BIG,
				       .short_by = 2 * MIB });
}
END_TEST

START_TEST(a_capacity_lost_to_rounding_is_named)
{
	check_oom("1,,alloc,0,1,0x1000,513,,,\n2,,alloc,0,1,0x2000,100,,,\n", "strict", 1024,
		  REPLAY_COMPLETE_FREE,
		  (struct replay_oom){
			  .event = 1, .requested = 100, .reason = REPLAY_OOM_ROUNDING, .short_by = 512 });
}
END_TEST

/* What is short is what the model itself would have grown by: the size of a new segment
 * is not rounded, a larger request is. */
START_TEST(what_is_short_is_the_growth_that_the_model_was_refused)
{
	static const struct {
		uint64_t size, growth;
	} cases[] = { { 512, 3 * MIB }, { 3 * MIB, 4 * MIB } };
	struct soma_policy policy = *soma_policy_preset("pytorch");

	policy.pool_count = 1;
	policy.pools[0] = (struct soma_policy_pool){ UINT64_MAX, 3 * MIB, MIB, 2 * MIB, 512 };
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct soma_model_limits limits = { .size = sizeof limits, .policy = &policy };
		uint64_t growth = cases[i].growth;
		struct replay_oom oom = { 0 };
		struct soma_model_alloc alloc;
		struct soma_model *model;

		limits.max_pool_size = growth;
		ck_assert_int_eq(soma_model_create(&limits, &model), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_alloc(model, cases[i].size, 0, &alloc), SOMA_STATUS_OK);
		ck_assert_uint_eq(soma_model_reserved(model), growth);
		soma_model_destroy(model);
		limits.max_pool_size = growth - 512;
		ck_assert_int_eq(soma_model_create(&limits, &model), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_model_alloc(model, cases[i].size, 0, &alloc),
				 SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
		moment_verdict(&(struct streams){ .model = model }, 0, cases[i].size, limits.max_pool_size,
			       &oom);
		ck_assert_uint_eq(oom.short_by, 512);
		soma_model_destroy(model);
	}
}
END_TEST

/* The first event that finds no room in `capacity`; REPLAY_AT_START: none. */
static uint64_t
first_failure(const char *lines, const char *policy, uint64_t capacity, uint64_t *short_by)
{
	struct replay_options options = options_for(policy);
	struct replayed replayed;
	uint64_t event;

	options.capacity = capacity;
	options.release_threshold = 0;
	replay_lines(&replayed, lines, options);
	event = replayed.result.oom.happened ? replayed.result.oom.event : REPLAY_AT_START;
	*short_by = replayed.result.oom.short_by;
	replayed_end(&replayed);
	return event;
}

static uint64_t
below(uint64_t *random, uint64_t limit)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (*random >> 33) % limit;
}

/* Allocations; with `frees`, also frees and synchronisations. */
static void
random_lines(char *lines, size_t room, uint64_t *random, bool frees)
{
	size_t used = 0;

	for (int i = 0; i < 60; i++) {
		uint64_t kind = frees ? below(random, 8) : 0, block = below(random, 12);
		uint64_t size =
			below(random, 3) > 0 ? 1 + below(random, 400) * 512 : 1 + below(random, 8 * MIB);
		const char *op = kind < 4 ? "alloc" : kind < 7 ? "free" : "sync";

		used += (size_t)snprintf(lines + used, room - used,
					 "%d,,%s,0,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",,,\n", i, op,
					 below(random, 3), 4096 + (frees ? block : (uint64_t)i), size);
	}
}

static bool
check_short(const char *lines, const char *policy, uint64_t capacity)
{
	uint64_t short_by, ignored, event = first_failure(lines, policy, capacity, &short_by);

	if (event == REPLAY_AT_START)
		return false;
	ck_assert_msg(first_failure(lines, policy, capacity + short_by, &ignored) > event,
		      "%s: %" PRIu64 " + %" PRIu64 " is too little\n%s", policy, capacity, short_by, lines);
	ck_assert_msg(first_failure(lines, policy, capacity + short_by - 1, &ignored) == event,
		      "%s: %" PRIu64 " + %" PRIu64 " - 1 is enough\n%s", policy, capacity, short_by, lines);
	return true;
}

/* With `strict` for any trace; where a failure to grow has effects of its own, a greater
 * capacity may change what was before: there without frees. */
START_TEST(what_is_missing_is_exactly_what_makes_it_fit)
{
	char lines[60 * 64];
	uint64_t random = 7;
	int failures = 0;

	for (int round = 0; round < 200; round++) {
		random_lines(lines, sizeof lines, &random, true);
		failures += check_short(lines, "strict", 512 * (1 + below(&random, 20000)));
		random_lines(lines, sizeof lines, &random, false);
		failures += check_short(lines, "pytorch", MIB * (1 + below(&random, 100)));
		failures += check_short(lines, "cuda", MIB * (1 + below(&random, 100)));
		failures += check_short(lines, "soma", MIB * (1 + below(&random, 100)));
	}
	ck_assert_int_gt(failures, 300);
}
END_TEST

START_TEST(a_replay_goes_on_after_a_failure)
{
	struct replay_options options = options_for("strict");
	struct replayed replayed;

	options.capacity = 2048;
	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,1024,,,\n"
		     "2,,alloc,0,1,0x2000,4096,,,\n"
		     "3,,alloc,0,1,0x3000,1024,,,\n"
		     "4,,alloc,0,1,0x4000,512,,,\n"
		     "5,,free,0,1,0x2000,,,,\n"
		     "6,,free,0,1,0x1000,,,,\n",
		     options);
	ck_assert_uint_eq(replayed.result.counts.failed, 2);
	ck_assert_uint_eq(replayed.result.counts.unknown_frees, 0);
	ck_assert_uint_eq(replayed.result.oom.event, 1);
	ck_assert_uint_eq(replayed.result.counts.live_bytes, 1024);
	replayed_end(&replayed);
}
END_TEST

START_TEST(the_peak_is_the_one_that_was_reached_when_allocations_failed)
{
	struct replay_options options = options_for("strict");
	struct replayed replayed;

	/* Without a capacity the peak is at event 3. */
	options.capacity = 4096;
	options.columns = 8;
	replay_lines(&replayed,
		     "1,,alloc,0,1,0x1000,1000,a,,\n"
		     "2,,alloc,0,1,0x2000,2000,b,,\n"
		     "3,,free,0,1,0x1000,,,,\n"
		     "4,,alloc,0,1,0x3000,8000,c,,\n",
		     options);
	ck_assert_uint_eq(replayed.result.peak_live_requested, 3000);
	ck_assert_uint_eq(replayed.result.peak_event, 1);
	ck_assert_uint_eq(replayed.result.at_peak.live_requested, 3000);
	ck_assert_uint_eq(replayed.result.at_peak.rounding_waste, 72);
	ck_assert_uint_eq(replayed.result.series.layer_count, 2);
	ck_assert_str_eq(trace_name_text(replayed.reader, replayed.result.series.layers[0]), "b");
	replayed_end(&replayed);
}
END_TEST

/* ---- recorded segments --------------------------------------------------- */

START_TEST(recorded_addresses_are_reproduced_and_compared)
{
	struct replayed replayed;
	const struct replay_parity *parity = &replayed.result.parity;

	replay_lines(&replayed,
		     "1,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"
		     "2,,alloc,0,1,0x7f0000000000,600,,,\n"
		     "3,,alloc,0,1,0x7f0000000400,600,,,\n"
		     "4,,segment_alloc,0,2,0x7f0000200000,2097152,,,\n"
		     "5,,alloc,0,2,0x7f0000200000,600,,,\n",
		     options_for(NULL));
	ck_assert_str_eq(replayed.result.policy->name, "pytorch");
	ck_assert(parity->applies);
	ck_assert_uint_eq(parity->recorded, 3);
	ck_assert_uint_eq(parity->reproduced, 3);
	ck_assert_uint_eq(parity->segments_recorded, 2);
	ck_assert_uint_eq(parity->segments_reproduced, 2);
	ck_assert(!parity->differs);
	replayed_end(&replayed);
}
END_TEST

START_TEST(the_first_difference_is_named_and_the_replay_goes_on)
{
	struct replayed replayed;
	const struct replay_parity *parity = &replayed.result.parity;

	replay_lines(&replayed,
		     "1,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"
		     "2,,alloc,0,1,0x7f0000000000,600,,,\n"
		     "3,,alloc,0,1,0x7f0000010000,600,,,\n"
		     "4,,free,0,1,0x7f0000010000,,,,\n"
		     "5,,alloc,0,1,0x7f0000000400,600,,,\n",
		     options_for(NULL));
	ck_assert_uint_eq(parity->recorded, 3);
	ck_assert_uint_eq(parity->reproduced, 2);
	ck_assert(parity->differs);
	ck_assert_uint_eq(parity->event, 2);
	ck_assert_uint_eq(parity->recorded_ptr, 0x7f0000010000);
	ck_assert_uint_eq(parity->got_ptr, 0x7f0000000400);
	replayed_end(&replayed);
}
END_TEST

START_TEST(other_policies_do_not_follow_recorded_segments)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"
		     "2,,alloc,0,1,0x7f0000000000,600,,,\n",
		     options_for("cuda"));
	ck_assert(!replayed.result.parity.applies);
	ck_assert_uint_eq(replayed.result.peak_reserved, 32 * MIB);
	replayed_end(&replayed);
}
END_TEST

START_TEST(a_segment_of_another_size_is_not_taken)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_alloc,0,1,0x7f0000000000,4194304,,,\n"
		     "2,,alloc,0,1,0x7f0000000000,600,,,\n",
		     options_for(NULL));
	ck_assert_uint_eq(replayed.result.parity.segments_recorded, 1);
	ck_assert_uint_eq(replayed.result.parity.segments_reproduced, 0);
	ck_assert_uint_eq(replayed.result.parity.reproduced, 0);
	ck_assert_uint_eq(replayed.result.peak_reserved, 2 * MIB);
	replayed_end(&replayed);
}
END_TEST

START_TEST(a_recorded_segment_free_releases_the_segment)
{
	struct replayed replayed;

	replay_lines(&replayed,
		     "1,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"
		     "2,,alloc,0,1,0x7f0000000000,600,,,\n"
		     "3,,free,0,1,0x7f0000000000,,,,\n"
		     "4,,segment_free,0,1,0x7f0000000000,2097152,,,\n"
		     "5,,segment_alloc,0,2,0x7f0000000000,2097152,,,\n"
		     "6,,alloc,0,2,0x7f0000000000,700,,,\n",
		     options_for(NULL));
	ck_assert_uint_eq(replayed.result.peak_reserved, 2 * MIB);
	ck_assert_uint_eq(replayed.result.parity.reproduced, 2);
	ck_assert_uint_eq(replayed.result.parity.segments_reproduced, 2);
	ck_assert_uint_eq(replayed.result.counts.unreleased, 0);
	replayed_end(&replayed);
}
END_TEST

/* ---- devices ------------------------------------------------------------- */

#define TWO_DEVICES                    \
	"1,,alloc,3,1,0x1000,600,,,\n" \
	"2,,alloc,1,1,0x1000,700,,,\n" \
	"3,,alloc,1,1,0x2000,800,,,\n"

START_TEST(the_device_with_the_most_allocations_is_replayed)
{
	struct replayed replayed;

	replay_lines(&replayed, TWO_DEVICES, options_for(NULL));
	ck_assert_int_eq(replayed.result.device, 1);
	ck_assert_uint_eq(replayed.result.device_count, 2);
	ck_assert_uint_eq(replayed.result.peak_live_requested, 1500);
	ck_assert_uint_eq(replayed.result.peak_event, 2);
	replayed_end(&replayed);
}
END_TEST

START_TEST(a_device_can_be_chosen_and_a_wrong_one_is_refused)
{
	struct replay_options options = options_for(NULL);
	struct replayed replayed;

	options.device = 3;
	replay_lines(&replayed, TWO_DEVICES, options);
	ck_assert_uint_eq(replayed.result.peak_live_requested, 600);
	replayed_end(&replayed);
	options.device = 2;
	replay_lines_raw(&replayed, TWO_DEVICES, options);
	ck_assert_int_eq(replayed.status, SOMA_STATUS_INVALID_VALUE);
	ck_assert_str_eq(replayed.error.text, "the trace has no device 2; it has 3, 1");
	replayed_end(&replayed);
}
END_TEST

START_TEST(a_malformed_line_ends_the_replay_with_its_place)
{
	struct replayed replayed;

	replay_lines_raw(&replayed, "1,,alloc,0,1,0x1000,600,,,\n2,,frobnicate,0,1,0x1000,600,,,\n",
			 options_for(NULL));
	ck_assert_int_eq(replayed.status, SOMA_STATUS_PARSE);
	ck_assert_msg(strstr(replayed.error.text, ":3:") != NULL, "%s", replayed.error.text);
	replayed_end(&replayed);
}
END_TEST

UNIT_MAIN("verdict", more_than_the_capacity_is_truly_too_big, free_bytes_in_pieces_are_fragmentation,
	  free_bytes_of_another_stream_are_stranded, frees_that_have_not_executed_are_named,
	  a_segment_larger_than_the_capacity_is_named, a_capacity_lost_to_rounding_is_named,
	  what_is_short_is_the_growth_that_the_model_was_refused,
	  what_is_missing_is_exactly_what_makes_it_fit, a_replay_goes_on_after_a_failure,
	  the_peak_is_the_one_that_was_reached_when_allocations_failed,
	  recorded_addresses_are_reproduced_and_compared,
	  the_first_difference_is_named_and_the_replay_goes_on,
	  other_policies_do_not_follow_recorded_segments, a_segment_of_another_size_is_not_taken,
	  a_recorded_segment_free_releases_the_segment,
	  the_device_with_the_most_allocations_is_replayed, a_device_can_be_chosen_and_a_wrong_one_is_refused,
	  a_malformed_line_ends_the_replay_with_its_place)
