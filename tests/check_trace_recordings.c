/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading recordings of real runs; skipped where they are not.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/check_trace_support.h"
#include "tests/recordings.h"

static const struct real {
	const char *file;
	size_t allocs, frees, segment_allocs, marks;
	size_t segments, blocks, pending;
	uint64_t reserved, peak; /* of requested bytes; 0: begins mid-run */
} reals[] = {
	{ "finetune-full.pickle", 7946, 7549, 61, 0, 61, 468, 0, 1897922560, 1783664516 },
	{ "tiny-full.pickle", 36, 26, 9, 0, 9, 20, 0, 3781165056, 3249143816 },
	{ "gpt-train-midrun.pickle", 7591, 7370, 0, 0, 234, 1031, 0, 25178406912, 0 },
	{ "gpt-infer-midrun.pickle", 1280, 1280, 0, 0, 108, 239, 0, 3204448256, 0 },
	{ "segments-only-pools.pickle", 0, 0, 0, 0, 127, 638, 9, 0, 0 },
	{ "legacy-history.pickle", 0, 0, 0, 1, 176, 463, 0, 0, 0 },
};

static uint64_t
peak_of(const struct events *events)
{
	uint64_t live = 0, peak = 0;

	for (size_t i = 0; i < events->count; i++) {
		if (events->event[i].op == TRACE_ALLOC)
			live += events->event[i].size;
		else if (events->event[i].op == TRACE_FREE)
			live -= events->event[i].size;
		peak = live > peak ? live : peak;
	}
	return peak;
}

static void
check_snapshot(const struct real *real, const struct trace_snapshot *snapshot)
{
	size_t blocks = 0, pending = 0;
	uint64_t reserved = 0;

	for (size_t i = 0; i < snapshot->segment_count; i++) {
		reserved += snapshot->segments[i].size;
		blocks += snapshot->segments[i].block_count;
		for (size_t j = 0; j < snapshot->segments[i].block_count; j++)
			pending += snapshot->segments[i].blocks[j].state == TRACE_BLOCK_PENDING;
	}
	ck_assert_uint_eq(snapshot->segment_count, real->segments);
	ck_assert_uint_eq(blocks, real->blocks);
	ck_assert_uint_eq(pending, real->pending);
	if (real->reserved != 0)
		ck_assert_uint_eq(reserved, real->reserved);
}

START_TEST(real_snapshots_have_the_counts_they_are_known_for)
{
	char path[4096];

	for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
		const struct real *real = &reals[i];
		struct events events = events_of_file(recording_path(path, sizeof path, real->file));

		ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
		ck_assert_uint_eq(events_number(&events, TRACE_ALLOC), real->allocs);
		ck_assert_uint_eq(events_number(&events, TRACE_FREE), real->frees);
		ck_assert_uint_eq(events_number(&events, TRACE_SEGMENT_ALLOC), real->segment_allocs);
		ck_assert_uint_eq(events_number(&events, TRACE_MARK), real->marks);
		ck_assert_uint_eq(events.count,
				  real->allocs + real->frees + real->segment_allocs + real->marks);
		if (real->peak != 0)
			ck_assert_uint_eq(peak_of(&events), real->peak);
		check_snapshot(real, trace_snapshot(events.reader));
		events_free(&events);
	}
}
END_TEST

/* ---- other formats --------------------------------------------------------------------- */

START_TEST(published_instances_have_their_lower_bounds)
{
	static const struct {
		const char *file;
		size_t blocks;
		uint64_t bound;
	} known[] = {
		{ "dsa/A.1048576.csv", 154, 1048576 },
		{ "dsa/B.1048576.csv", 170, 1048576 },
		{ "dsa/C.1048576.csv", 203, 1039360 },
		{ "dsa/D.1048576.csv", 213, 986112 },
		{ "dsa/E.1048576.csv", 215, 1048576 },
		{ "dsa/F.1048576.csv", 296, 1048576 },
		{ "dsa/input.12.csv", 5, 12 },
		{ "dsa/G_1.csv", 816, 3030937746 },
		{ "dsa/resnet50.csv", 1042, 1515472556 },
	};
	char path[4096];

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		struct events events = events_of_file(recording_path(path, sizeof path, known[i].file));

		ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
		ck_assert_uint_eq(events_number(&events, TRACE_ALLOC), known[i].blocks);
		ck_assert_uint_eq(events_number(&events, TRACE_FREE), known[i].blocks);
		ck_assert_uint_eq(peak_of(&events), known[i].bound);
		events_free(&events);
	}
}
END_TEST

static int32_t
highest_device(const struct events *events)
{
	int32_t highest = -1;

	for (size_t i = 0; i < events->count; i++)
		if (events->event[i].device > highest)
			highest = events->event[i].device;
	return highest;
}

/* 1642 of each are logged, the parts of most of the 336 reallocations among them; 27 were
 * in place. */
START_TEST(a_real_umpire_log_is_balanced)
{
	char path[4096];
	struct events events = events_of_file(recording_path(path, sizeof path, "umpire-devices.replay"));

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events_number(&events, TRACE_ALLOC), 1642 + 27);
	ck_assert_uint_eq(events_number(&events, TRACE_FREE), 1642 + 27);
	ck_assert_int_eq(highest_device(&events), 6);
	ck_assert_uint_gt(peak_of(&events), 0);
	ck_assert_uint_eq(events.event[0].time_ns, 1656100509619867971);
	events_free(&events);
}
END_TEST

START_TEST(a_real_kineto_trace_has_its_device_memory)
{
	char path[4096];
	struct events events = events_of_file(recording_path(path, sizeof path, "kineto-resnet50.json.gz"));

	ck_assert_msg(events.result == TRACE_END, "%s", events.error.text);
	ck_assert_uint_eq(events_number(&events, TRACE_ALLOC), 4110);
	ck_assert_uint_eq(events_number(&events, TRACE_FREE), 4110);
	events_free(&events);
}
END_TEST

/* ---- the examples --------------------------------------------------------------------- */

static void
check_example(const char *name, const char *source)
{
	char path[4096];
	struct events events, real;

	snprintf(path, sizeof path, "%s/%s", EXAMPLES_FOLDER, name);
	events = events_of_file(path);
	real = events_of_file(recording_path(path, sizeof path, source));
	ck_assert_uint_eq(events.count, real.count);
	for (size_t i = 0; i < events.count; i++) {
		const struct trace_event *a = &events.event[i], *b = &real.event[i];
		MUST(a->op == b->op && a->deferred == b->deferred && a->ptr == b->ptr && a->size == b->size &&
		     a->stream == b->stream && a->device == b->device &&
		     a->time_ns == b->time_ns - real.event[0].time_ns);
	}
	events_free(&real);
	events_free(&events);
}

START_TEST(the_examples_are_their_sources_in_numbers)
{
	check_example("finetune-full.csv.gz", "finetune-full.pickle");
	check_example("tiny-full.csv", "tiny-full.pickle");
}
END_TEST

/* ---- damage --------------------------------------------------------------------------- */

static struct bytes
load_recording(const char *name)
{
	char path[4096];

	return bytes_load(recording_path(path, sizeof path, name));
}

START_TEST(every_truncation_of_a_real_snapshot_is_read_or_refused)
{
	struct bytes bytes = load_recording("tiny-full.pickle");

	check_cut_everywhere(&bytes, 1);
	bytes_free(&bytes);
}
END_TEST

START_TEST(random_changes_of_a_real_snapshot_are_read_or_refused)
{
	struct bytes bytes = load_recording("tiny-full.pickle");
	uint64_t random = 42;

	for (size_t i = 0; i < 2000; i++)
		check_changed(&bytes, &random);
	bytes_free(&bytes);
}
END_TEST

RECORDINGS_MAIN("trace_recordings", real_snapshots_have_the_counts_they_are_known_for,
		published_instances_have_their_lower_bounds, a_real_umpire_log_is_balanced,
		a_real_kineto_trace_has_its_device_memory, the_examples_are_their_sources_in_numbers,
		every_truncation_of_a_real_snapshot_is_read_or_refused,
		random_changes_of_a_real_snapshot_are_read_or_refused)
