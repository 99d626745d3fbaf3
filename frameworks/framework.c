/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, streams, allocations and frees for the frameworks' entry points.  What they have in common is here, and
 * nothing of any framework.
 *
 * `opening` is held over opening a device, so that each is opened once.  A device is never closed: frameworks free
 * up to the very end of the process, in no order that could be known.
 */
#include "frameworks/framework.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define REPORTS_MAX 20
#define REASON_MAX 640

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t beginning = PTHREAD_ONCE_INIT;
static struct framework_device *_Atomic devices; /* grows at its head, under `opening` */
static atomic_bool forked;
static atomic_uint reports;
static _Atomic uint64_t failures, bad_frees;
static pthread_key_t reasons; /* of each thread's latest failure: a text, malloc's */
static bool has_reasons;      /* written once, by begin() */

/* ---- the first call ------------------------------------------------------------------------ */

static void
in_child(void)
{
	atomic_store(&forked, true);
}

/* After it a child finds locks that other threads of its parent may hold. */
static void
begin(void)
{
	has_reasons = pthread_key_create(&reasons, free) == 0;
	(void)pthread_atfork(NULL, NULL, in_child);
}

/* ---- what is said ------------------------------------------------------------------------- */

/*
 * soma_error_last() is no place to look for it later: calls that succeed leave behind what they got over, such as
 * that there is no budget to count.
 */
static void
note_reason(const char *text)
{
	char *reason;

	pthread_once(&beginning, begin);
	if (!has_reasons)
		return;
	reason = pthread_getspecific(reasons);
	if (reason == NULL) {
		reason = malloc(REASON_MAX);
		if (reason == NULL || pthread_setspecific(reasons, reason) != 0) {
			free(reason);
			return;
		}
	}
	snprintf(reason, REASON_MAX, "%s", text);
}

static void
note_error(void)
{
	note_reason(soma_error_last()->text);
}

static void
say(const char *text)
{
	if (atomic_fetch_add(&reports, 1) < REPORTS_MAX)
		fprintf(stderr, "soma: %s\n", text);
}

void
framework_report(const char *format, ...)
{
	char text[REASON_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	say(text);
}

/* It is the reason, and said at once. */
__attribute__((format(printf, 1, 2))) static void
fail(const char *format, ...)
{
	char text[REASON_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	note_reason(text);
	say(text);
}

const char *
framework_error(void)
{
	const char *reason;

	if (atomic_load(&forked))
		return "the process was forked after its first use of soma, and the memory is the parent's";
	pthread_once(&beginning, begin);
	reason = has_reasons ? pthread_getspecific(reasons) : NULL;
	return reason != NULL ? reason : soma_status_text(SOMA_STATUS_OK);
}

/* ---- devices -------------------------------------------------------------------------------- */

static struct framework_device *
find_device(int number)
{
	struct framework_device *device = atomic_load_explicit(&devices, memory_order_acquire);

	while (device != NULL && device->number != number)
		device = device->next;
	return device;
}

/* Under `opening`. */
static struct framework_device *
open_device(int number)
{
	struct framework_device *device = calloc(1, sizeof *device);

	if (device == NULL) {
		note_reason("no memory for the record of a device");
		return NULL;
	}
	device->number = number;
	device->next = atomic_load_explicit(&devices, memory_order_relaxed);
	if (soma_runtime_for_device(number, &device->runtime) != SOMA_STATUS_OK) {
		note_error();
		free(device);
		return NULL;
	}
	if (soma_runtime_pool_create(device->runtime, &device->pool) != SOMA_STATUS_OK) {
		note_error();
		soma_runtime_release(device->runtime);
		free(device);
		return NULL;
	}
	atomic_store_explicit(&devices, device, memory_order_release);
	return device;
}

/* NULL: the reason is noted. */
static struct framework_device *
get_device(int number)
{
	struct framework_device *device;

	pthread_once(&beginning, begin);
	if (atomic_load(&forked))
		return NULL;
	device = find_device(number);
	if (device != NULL)
		return device;
	pthread_mutex_lock(&opening);
	device = find_device(number);
	if (device == NULL)
		device = open_device(number);
	pthread_mutex_unlock(&opening);
	return device;
}

/* ---- streams -------------------------------------------------------------------------------- */

/*
 * soma's id of the stream that has the handle now.  A stream is wrapped once and stays so: when it was destroyed
 * and the driver gave its handle to another, that one is wrapped as a stream of its own.
 */
static enum soma_status
find_stream(struct framework_device *device, uint64_t native, uint64_t *stream)
{
	enum soma_status status = SOMA_STATUS_OK;

	*stream = 0;
	if (native == 0)
		return SOMA_STATUS_OK;
	status = soma_runtime_stream_resolve(device->runtime, native, stream);
	if (status == SOMA_STATUS_NOT_FOUND)
		status = soma_runtime_stream_wrap(device->runtime, native, stream);
	return status;
}

/*
 * A framework destroys its streams without a word, so nothing may be left to be queued on one later: the event that
 * the pool would want behind the free is recorded at once.  If it cannot be, the free stands all the same.
 */
static void
finish_stream(struct framework_device *device, uint64_t stream)
{
	uint64_t seq;

	if (stream != 0)
		(void)soma_pool_record_event(device->pool, stream, &seq);
}

/* ---- blocks ----------------------------------------------------------------------------------- */

static void *
fail_take(void)
{
	atomic_fetch_add(&failures, 1);
	return NULL;
}

void *
framework_take(int number, uint64_t bytes, uint64_t native)
{
	struct framework_device *device;
	struct framework_block block = { 0 };
	uint64_t stream;

	if (bytes == 0)
		return NULL;
	device = get_device(number);
	if (device == NULL)
		return fail_take();
	if (find_stream(device, native, &stream) != SOMA_STATUS_OK ||
	    soma_pool_alloc(device->pool, bytes, stream, &block.allocation) != SOMA_STATUS_OK) {
		note_error();
		return fail_take();
	}
	block.device = device;
	block.ptr = soma_allocation_device_ptr(block.allocation);
	if (framework_blocks_add(&block))
		return (void *)(uintptr_t)block.ptr;
	fail("no memory to note a block of %" PRIu64 " bytes", bytes);
	(void)soma_allocation_release(block.allocation);
	return fail_take();
}

/* The free's stream waits for the others as they are now. */
static enum soma_status
wait_for_uses(const struct framework_block *block, uint64_t stream)
{
	struct soma_pool *pool = block->device->pool;
	enum soma_status status = SOMA_STATUS_OK;
	uint64_t seq;

	for (uint32_t i = 0; i < block->use_count && status == SOMA_STATUS_OK; i++) {
		if (block->uses[i] == stream)
			continue;
		status = soma_pool_record_event(pool, block->uses[i], &seq);
		if (status == SOMA_STATUS_OK)
			status = soma_pool_wait_event(pool, stream, block->uses[i], seq);
	}
	return status;
}

static enum soma_status
give_block(const struct framework_block *block, uint64_t native)
{
	uint64_t stream;
	enum soma_status status = find_stream(block->device, native, &stream);

	if (status == SOMA_STATUS_OK)
		status = wait_for_uses(block, stream);
	if (status == SOMA_STATUS_OK)
		status = soma_pool_free(block->allocation, stream);
	if (status == SOMA_STATUS_OK)
		finish_stream(block->device, stream);
	return status;
}

void
framework_give(void *ptr, uint64_t native)
{
	struct framework_block block;

	if (ptr == NULL || atomic_load(&forked))
		return;
	if (!framework_blocks_remove((uintptr_t)ptr, &block)) {
		atomic_fetch_add(&bad_frees, 1);
		fail("a free of %p, which is not the address of a live block", ptr);
		return;
	}
	if (give_block(&block, native) == SOMA_STATUS_OK) {
		(void)soma_allocation_release(block.allocation);
	} else {
		atomic_fetch_add(&bad_frees, 1);
		fail("the block at %p stays, because its free failed: %s", ptr, soma_error_last()->text);
	}
	free(block.uses);
}

void
framework_record(void *ptr, uint64_t native)
{
	struct framework_device *device;
	uint64_t stream;

	if (ptr == NULL || atomic_load(&forked))
		return;
	device = framework_blocks_device((uintptr_t)ptr);
	if (device == NULL)
		fail("a use of %p, which is not the address of a live block", ptr);
	else if (find_stream(device, native, &stream) != SOMA_STATUS_OK)
		fail("a use of %p could not be recorded: %s", ptr, soma_error_last()->text);
	else if (!framework_blocks_use((uintptr_t)ptr, stream))
		fail("a use of %p could not be recorded: the block was freed meanwhile, or there is no memory", ptr);
}

/* ---- whole devices ------------------------------------------------------------------------------ */

void
framework_trim(void)
{
	if (atomic_load(&forked))
		return;
	for (struct framework_device *device = atomic_load_explicit(&devices, memory_order_acquire);
	     device != NULL; device = device->next) {
		if (soma_pool_trim(device->pool, 0) != SOMA_STATUS_OK ||
		    soma_resource_trim_to(soma_runtime_resource(device->runtime), 0) != SOMA_STATUS_OK)
			fail("device %d: free memory was not given back: %s", device->number,
			     soma_error_last()->text);
	}
}

int
framework_flush(void)
{
	int result = 0;

	if (atomic_load(&forked))
		return -1;
	for (struct framework_device *device = atomic_load_explicit(&devices, memory_order_acquire);
	     device != NULL; device = device->next)
		if (soma_runtime_flush(device->runtime) != SOMA_STATUS_OK) {
			note_error();
			result = -1;
		}
	return result;
}

/* "null", or the object's text in the buffer. */
static const char *
budget_text(struct soma_resource *resource, char *text, size_t size)
{
	struct soma_budget_snapshot budget = { .size = sizeof budget };

	if (soma_resource_budget_snapshot(resource, &budget) != SOMA_STATUS_OK)
		return "null";
	snprintf(text, size, "{\"limit\":%" PRIu64 ",\"reserved\":%" PRIu64 ",\"remaining\":%" PRIu64 "}",
		 budget.limit, budget.reserved, budget.remaining);
	return text;
}

static const char *
guard_text(struct soma_resource *resource, char *text, size_t size)
{
	struct soma_guard_stats guard = { .size = sizeof guard };

	if (soma_guard_stats(resource, &guard) != SOMA_STATUS_OK)
		return "null";
	snprintf(text, size, "{\"reports\":%" PRIu64 ",\"quarantined_bytes\":%" PRIu64 "}", guard.reports,
		 guard.quarantined_bytes);
	return text;
}

int
framework_stats(int number, char *json, size_t size)
{
	struct framework_device *device = get_device(number);
	struct soma_pool_stats pool = { .size = sizeof pool };
	struct soma_ledger ledger = { .size = sizeof ledger };
	struct soma_resource *resource;
	char budget[128], guard[96];

	if (device == NULL)
		return -1;
	resource = soma_runtime_resource(device->runtime);
	if (soma_pool_stats(device->pool, &pool) != SOMA_STATUS_OK ||
	    soma_resource_ledger(resource, &ledger) != SOMA_STATUS_OK) {
		note_error();
		return -1;
	}
	return snprintf(
		json, size,
		"{\"device\":%d,\"backend\":\"%s\",\"live_bytes\":%" PRIu64 ",\"live_count\":%" PRIu64
		",\"peak_bytes\":%" PRIu64 ",\"reserved_bytes\":%" PRIu64 ",\"reserved_peak_bytes\":%" PRIu64
		",\"alloc_count\":%" PRIu64 ",\"free_count\":%" PRIu64 ",\"failed_allocs\":%" PRIu64
		",\"failed_frees\":%" PRIu64 ",\"device_live_bytes\":%" PRIu64
		",\"device_retired_bytes\":%" PRIu64 ",\"budget\":%s,\"guard\":%s}",
		number, soma_runtime_backend(device->runtime), pool.used, pool.live_count, pool.used_high,
		pool.reserved, pool.reserved_high, pool.alloc_count, pool.free_count, atomic_load(&failures),
		atomic_load(&bad_frees), ledger.live_bytes, ledger.retired_bytes,
		budget_text(resource, budget, sizeof budget), guard_text(resource, guard, sizeof guard));
}
