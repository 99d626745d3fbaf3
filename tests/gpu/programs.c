/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs as a user writes them, over the public interface alone, with kernels that really write and read: on each
 * backend, plain and guarded.  A stream is held back where that makes an order that is missing visible; over sync
 * that is left out, because its frees wait for the device.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <soma/soma.h>

#include "tests/gpu/case.h"

#define MB ((uint64_t)1 << 20)
#define STREAMS 4
#define BLOCKS 24

/* An open runtime with streams. */
struct program {
	struct gpu *gpu;
	const struct case_setup *setup;
	struct soma_runtime *runtime;
	struct soma_resource *memory;
	uint64_t streams[STREAMS]; /* by id, and by the driver's handle */
	uint64_t natives[STREAMS];
	unsigned reports;
	char kind[32];
};

#define OK(call)                                                                                        \
	do {                                                                                            \
		if ((call) != SOMA_STATUS_OK)                                                           \
			case_fail("%s:%d: %s: %s", __FILE__, __LINE__, #call, soma_error_last()->text); \
	} while (0)

static void
hear(void *context, const struct soma_guard_report *report)
{
	struct program *p = context;

	p->reports++;
	snprintf(p->kind, sizeof p->kind, "%s", report->kind);
}

static void
open_program(struct program *p, struct gpu *gpu, const struct case_setup *setup, const char *more)
{
	char conf[2048];

	*p = (struct program){ .gpu = gpu, .setup = setup };
	snprintf(conf, sizeof conf, "backend=%s,device=%d%s%s%s%s", setup->backend, setup->device,
		 setup->folders != NULL ? ",backend_path=" : "", setup->folders != NULL ? setup->folders : "",
		 setup->is_guarded ? ",guard.on_error=callback,guard.race=strict" : "", more);
	OK(soma_runtime_open(conf, &p->runtime));
	p->memory = soma_runtime_resource(p->runtime);
	if (setup->is_guarded)
		OK(soma_guard_listen(p->memory, hear, p));
	for (int i = 0; i < STREAMS; i++) {
		OK(soma_runtime_stream_acquire(p->runtime, SOMA_STREAM_NON_BLOCKING, &p->streams[i]));
		OK(soma_runtime_stream_native(p->runtime, p->streams[i], &p->natives[i]));
	}
}

/* Everything was given back, and the guard has nothing to say. */
static void
close_program(struct program *p)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	OK(soma_resource_ledger(p->memory, &ledger));
	CASE_EXPECT(ledger.live_count == 0 && ledger.live_bytes == 0);
	for (int i = 0; i < STREAMS; i++)
		OK(soma_runtime_stream_release(p->runtime, p->streams[i]));
	soma_runtime_release(p->runtime);
	if (p->reports > 0)
		case_fail("the guard has %u reports, the last: %s", p->reports, p->kind);
}

static struct soma_block
take(struct program *p, uint64_t bytes, int stream)
{
	struct soma_block block = { .size = sizeof block };

	OK(soma_resource_allocate(p->memory, bytes, p->streams[stream], &block));
	return block;
}

static void
give(struct program *p, const struct soma_block *block)
{
	OK(soma_resource_deallocate(p->memory, block));
}

static void
hold(struct program *p, int stream)
{
	if (p->setup->is_async)
		gpu_hold(p->gpu, p->natives[stream]);
}

static void
expect_all_equal(struct program *p)
{
	uint64_t count = gpu_mismatches(p->gpu);

	if (count != 0)
		case_fail("%" PRIu64 " bytes are not what was written", count);
}

/* A kernel that writes (value >= 0), or compares with -1 - value, as a launch. */
static void
launch(struct program *p, const struct soma_block *block, int stream, bool writes, unsigned char value)
{
	struct soma_launch launch;

	OK(soma_launch_begin(&launch, p->memory, p->streams[stream]));
	OK(writes ? soma_launch_write(&launch, block->id) : soma_launch_read(&launch, block->id));
	OK(soma_launch_preflight(&launch));
	if (writes)
		gpu_touch(p->gpu, block->ptr, block->bytes, value, p->natives[stream]);
	else
		gpu_check(p->gpu, block->ptr, block->bytes, value, p->natives[stream]);
	OK(soma_launch_commit(&launch));
}

/* ---- the programs ----------------------------------------------------------------------- */

static void
write_and_read(struct gpu *gpu, const struct case_setup *setup)
{
	static const uint64_t sizes[] = { 1, 255, 256, 1000, 65536, 1000003, 40 * MB };
	struct program p;

	open_program(&p, gpu, setup, "");
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct soma_block block = take(&p, sizes[i], 0);
		CASE_EXPECT(block.ptr % 256 == 0);
		gpu_touch(gpu, block.ptr, sizes[i], (unsigned char)(i + 1), p.natives[0]);
		gpu_read(gpu, block.ptr, sizes[i], p.natives[0]);
		gpu_check(gpu, block.ptr, sizes[i], (unsigned char)(i + 1), p.natives[0]);
		CASE_EXPECT(gpu_ends_are(gpu, block.ptr, sizes[i], (unsigned char)(i + 1), p.natives[0]));
		give(&p, &block);
	}
	expect_all_equal(&p);
	close_program(&p);
}

static void
many_blocks_do_not_overlap(struct gpu *gpu, const struct case_setup *setup)
{
	enum { COUNT = 200 };
	struct soma_block blocks[COUNT];
	struct program p;

	open_program(&p, gpu, setup, "");
	for (int i = 0; i < COUNT; i++) {
		blocks[i] = take(&p, 1 + (uint64_t)i * 977, 0);
		gpu_touch(gpu, blocks[i].ptr, blocks[i].bytes, (unsigned char)i, p.natives[0]);
	}
	for (int i = 0; i < COUNT; i++)
		gpu_check(gpu, blocks[i].ptr, blocks[i].bytes, (unsigned char)i, p.natives[0]);
	expect_all_equal(&p);
	for (int i = 0; i < COUNT; i++)
		give(&p, &blocks[i]);
	close_program(&p);
}

static void
reuse_on_one_stream(struct gpu *gpu, const struct case_setup *setup)
{
	struct program p;

	open_program(&p, gpu, setup, "");
	for (int i = 0; i < (setup->quick ? 50 : 1000); i++) {
		struct soma_block block = take(&p, 4096 + (uint64_t)(i % 7) * 1000, 0);
		gpu_touch(gpu, block.ptr, block.bytes, (unsigned char)i, p.natives[0]);
		gpu_check(gpu, block.ptr, block.bytes, (unsigned char)i, p.natives[0]);
		give(&p, &block);
	}
	expect_all_equal(&p);
	close_program(&p);
}

static void
a_launch_waits_for_the_writer(struct gpu *gpu, const struct case_setup *setup)
{
	struct program p;

	open_program(&p, gpu, setup, "");
	for (int i = 1; i < 20; i++) {
		struct soma_block block = take(&p, MB, 0);
		launch(&p, &block, 0, true, 0);
		hold(&p, 0);
		launch(&p, &block, 0, true, (unsigned char)i);
		launch(&p, &block, 1, false, (unsigned char)i);
		launch(&p, &block, 2, false, (unsigned char)i);
		launch(&p, &block, 3, true, 0xee);
		launch(&p, &block, 0, false, 0xee);
		expect_all_equal(&p);
		give(&p, &block);
	}
	close_program(&p);
}

/* A block that comes to the same place must not be seen by the old one's last kernel. */
static void
a_free_waits_for_recorded_uses(struct gpu *gpu, const struct case_setup *setup)
{
	struct program p;

	open_program(&p, gpu, setup, "");
	for (int i = 0; i < 20; i++) {
		struct soma_block first = take(&p, MB, 0), second;
		struct soma_use use = { .size = sizeof use };
		OK(soma_resource_prepare_use(p.memory, first.id, p.streams[1], SOMA_ACCESS_WRITE, &use));
		hold(&p, 1);
		gpu_touch(gpu, first.ptr, MB, 1, p.natives[1]);
		OK(soma_resource_finish_use(p.memory, &use, 1));
		give(&p, &first);
		second = take(&p, MB, 0);
		gpu_touch(gpu, second.ptr, MB, 2, p.natives[0]);
		gpu_go(gpu);
		OK(soma_resource_stream_synchronize(p.memory, p.streams[1]));
		gpu_check(gpu, second.ptr, MB, 2, p.natives[0]);
		expect_all_equal(&p);
		give(&p, &second);
	}
	close_program(&p);
}

/* Any stream, any order of launches, allocations and frees; each block has the value that was last written. */
static void
random_launches(struct gpu *gpu, const struct case_setup *setup)
{
	struct soma_block blocks[BLOCKS];
	unsigned char values[BLOCKS];
	bool live[BLOCKS] = { 0 };
	struct program p;
	uint32_t seed = 12345;

	open_program(&p, gpu, setup, "");
	for (int step = 0; step < (setup->quick ? 300 : 5000); step++) {
		seed = seed * 1664525 + 1013904223;
		unsigned i = seed >> 8 & 0xff, what = seed >> 16 & 7;
		int stream = (int)(seed >> 20 & 3);
		i %= BLOCKS;
		if (!live[i]) {
			blocks[i] = take(&p, 1 + (seed >> 12) % 200000, stream);
			live[i] = true;
			values[i] = (unsigned char)step;
			launch(&p, &blocks[i], stream, true, values[i]);
		} else if (what == 0) {
			give(&p, &blocks[i]);
			live[i] = false;
		} else if (what < 4) {
			values[i] = (unsigned char)step;
			launch(&p, &blocks[i], stream, true, values[i]);
		} else {
			launch(&p, &blocks[i], stream, false, values[i]);
		}
	}
	for (int i = 0; i < BLOCKS; i++)
		if (live[i])
			give(&p, &blocks[i]);
	expect_all_equal(&p);
	close_program(&p);
}

static void
wait_in_pool(struct soma_pool *pool, uint64_t stream, uint64_t from)
{
	uint64_t seq;

	OK(soma_pool_record_event(pool, from, &seq));
	OK(soma_pool_wait_event(pool, stream, from, seq));
}

/* Allocated on one stream, written there, compared on the next, freed there. */
static void
a_pool_over_four_streams(struct gpu *gpu, const struct case_setup *setup)
{
	struct soma_pool_stats stats = { .size = sizeof stats };
	struct soma_pool *pool;
	struct program p;

	open_program(&p, gpu, setup, "");
	OK(soma_runtime_pool_create(p.runtime, &pool));
	for (int i = 0; i < (setup->quick ? 100 : 1500); i++) {
		int first = i % STREAMS, second = (i / 3) % STREAMS;
		uint64_t bytes = 1000 + (uint64_t)(i % 50) * 9000;
		struct soma_allocation *block;
		OK(soma_pool_alloc(pool, bytes, p.streams[first], &block));
		uint64_t ptr = soma_allocation_device_ptr(block);
		gpu_touch(gpu, ptr, bytes, (unsigned char)i, p.natives[first]);
		if (first != second)
			wait_in_pool(pool, p.streams[second], p.streams[first]);
		gpu_check(gpu, ptr, bytes, (unsigned char)i, p.natives[second]);
		OK(soma_pool_free(block, p.streams[second]));
		OK(soma_allocation_release(block));
	}
	expect_all_equal(&p);
	OK(soma_pool_stats(pool, &stats));
	CASE_EXPECT(stats.live_count == 0 && stats.used == 0);
	case_note("reserved at most %" PRIu64 " MiB for %" PRIu64 " MiB", stats.reserved_high / MB,
		  stats.used_high / MB);
	OK(soma_pool_destroy(pool));
	close_program(&p);
}

static void
too_much_is_refused_and_nothing_lost(struct gpu *gpu, const struct case_setup *setup)
{
	struct soma_runtime_info info = { .size = sizeof info };
	struct soma_block block = { .size = sizeof block };
	struct program p;

	open_program(&p, gpu, setup, "");
	OK(soma_runtime_query(p.runtime, &info));
	CASE_EXPECT(soma_resource_allocate(p.memory, info.total * 2, p.streams[0], &block) ==
		    SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	CASE_EXPECT(strstr(soma_error_last()->text, "tried") != NULL);
	block = take(&p, MB, 0);
	launch(&p, &block, 0, true, 9);
	launch(&p, &block, 0, false, 9);
	expect_all_equal(&p);
	give(&p, &block);
	close_program(&p);
}

static void
a_capture_is_left_alone(struct gpu *gpu, const struct case_setup *setup)
{
	struct soma_block block = { .size = sizeof block };
	CUgraph graph = NULL;
	struct program p;

	open_program(&p, gpu, setup, "");
	struct soma_block other = take(&p, MB, 0);
	OK(soma_resource_stream_synchronize(p.memory, p.streams[0]));
	CASE_EXPECT(gpu->cuStreamBeginCapture((CUstream)(uintptr_t)p.natives[0],
					      CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
	CASE_EXPECT(soma_resource_allocate(p.memory, MB, p.streams[0], &block) == SOMA_STATUS_STREAM_MISUSE);
	CASE_EXPECT(strstr(soma_error_last()->text, "capture") != NULL);
	/* More than there is: what is tried for it must not wait for the device. */
	struct soma_runtime_info info = { .size = sizeof info };
	OK(soma_runtime_query(p.runtime, &info));
	CASE_EXPECT(soma_resource_allocate(p.memory, info.total * 2, p.streams[1], &block) ==
		    SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	gpu_touch(gpu, other.ptr, MB, 1, p.natives[0]);
	CUresult result = gpu->cuStreamEndCapture((CUstream)(uintptr_t)p.natives[0], &graph);
	if (result != CUDA_SUCCESS)
		case_fail("the capture was spoilt: %s", gpu_result_name(gpu, result));
	CASE_EXPECT(gpu->cuGraphDestroy(graph) == CUDA_SUCCESS);
	give(&p, &other);
	close_program(&p);
}

/* The streams say which context is meant; the thread has none, and gets none. */
static void
a_thread_without_a_context(struct gpu *gpu, const struct case_setup *setup)
{
	CUcontext own, current = NULL;
	struct program p;

	open_program(&p, gpu, setup, "");
	CASE_EXPECT(gpu->d.cuCtxPopCurrent(&own) == CUDA_SUCCESS);
	for (int i = 0; i < 20; i++) {
		struct soma_block block = take(&p, MB, 0);
		struct soma_use use = { .size = sizeof use };
		OK(soma_resource_prepare_use(p.memory, block.id, p.streams[1], SOMA_ACCESS_WRITE, &use));
		OK(soma_resource_finish_use(p.memory, &use, 1));
		give(&p, &block);
	}
	OK(soma_resource_stream_synchronize(p.memory, p.streams[0]));
	CASE_EXPECT(gpu->d.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == NULL);
	CASE_EXPECT(gpu->d.cuCtxPushCurrent(own) == CUDA_SUCCESS);
	struct soma_block block = take(&p, MB, 0);
	launch(&p, &block, 0, true, 5);
	launch(&p, &block, 1, false, 5);
	expect_all_equal(&p);
	give(&p, &block);
	close_program(&p);
}

/* Row 32 of the guard, over a budget: what the stream is past lies in the quarantine. */
static void
row_32_a_full_budget_drains_the_quarantine(struct gpu *gpu, const struct case_setup *setup)
{
	struct program p;

	open_program(&p, gpu, setup, ",budget=8M");
	for (int i = 0; i < 50; i++) {
		struct soma_block block = take(&p, 3 * MB, 0);
		launch(&p, &block, 0, true, (unsigned char)i);
		give(&p, &block);
		OK(soma_resource_stream_synchronize(p.memory, p.streams[0]));
	}
	close_program(&p);
}

/* A kernel writes past its block; the program is told when it frees it. */
static void
an_overrun_is_reported(struct gpu *gpu, const struct case_setup *setup)
{
	uint64_t damaged;
	struct program p;

	open_program(&p, gpu, setup, "");
	struct soma_block block = take(&p, 10000, 0);
	gpu_touch(gpu, block.ptr, 10001, 7, p.natives[0]);
	OK(soma_resource_stream_synchronize(p.memory, p.streams[0]));
	OK(soma_guard_scan(p.memory, &damaged));
	CASE_EXPECT(damaged == 1 && p.reports == 1 && strcmp(p.kind, "oob-write-after") == 0);
	give(&p, &block);
	p.reports = 0;
	close_program(&p);
}

int
main(int argc, char **argv)
{
	static const struct case_entry cases[] = {
		{ "write_and_read", CASE_PLAIN | CASE_GUARDED, write_and_read },
		{ "many_blocks_do_not_overlap", CASE_PLAIN | CASE_GUARDED, many_blocks_do_not_overlap },
		{ "reuse_on_one_stream", CASE_PLAIN | CASE_GUARDED, reuse_on_one_stream },
		{ "a_launch_waits_for_the_writer", CASE_PLAIN | CASE_GUARDED, a_launch_waits_for_the_writer },
		{ "a_free_waits_for_recorded_uses", CASE_PLAIN | CASE_GUARDED,
		  a_free_waits_for_recorded_uses },
		{ "random_launches", CASE_PLAIN | CASE_GUARDED, random_launches },
		{ "a_pool_over_four_streams", CASE_PLAIN | CASE_GUARDED, a_pool_over_four_streams },
		{ "too_much_is_refused_and_nothing_lost", CASE_PLAIN | CASE_GUARDED,
		  too_much_is_refused_and_nothing_lost },
		{ "a_capture_is_left_alone", CASE_PLAIN | CASE_GUARDED, a_capture_is_left_alone },
		{ "a_thread_without_a_context", CASE_PLAIN | CASE_GUARDED, a_thread_without_a_context },
		{ "row_32_a_full_budget_drains_the_quarantine", CASE_GUARDED,
		  row_32_a_full_budget_drains_the_quarantine },
		{ "an_overrun_is_reported", CASE_GUARDED | CASE_WRONG, an_overrun_is_reported },
	};

	return case_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
