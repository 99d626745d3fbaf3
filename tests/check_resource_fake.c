/* SPDX-License-Identifier: Apache-2.0 */
/* The fake backend of the resource tests; see the header. */
#include <stdlib.h>
#include <string.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake_ops.h"
#include "tests/check_resource_sanitizer.h"

enum soma_status
fake_enter(struct soma_backend *fake, enum fake_op op)
{
	uint64_t call = atomic_fetch_add(&fake->calls, 1) + 1;

	atomic_fetch_add(&fake->counts[op], 1);
	if (fake->before != NULL)
		fake->before(fake, op, fake->context);
	if (call == atomic_load(&fake->fail_at))
		return SOMA_STATUS_DRIVER;
	return fake->fail_with[op];
}

void
fake_leave(struct soma_backend *fake, enum fake_op op)
{
	if (fake->after != NULL)
		fake->after(fake, op, fake->context);
}

static enum soma_status
fake_query(struct soma_backend *fake, struct soma_backend_info *info)
{
	info->capabilities = fake->capabilities;
	info->alignment = 256;
	info->granularity = 4096;
	info->total = fake->limit != 0 ? fake->limit : (uint64_t)1 << 40;
	info->free = info->total - fake->live_bytes;
	return SOMA_STATUS_OK;
}

/* ---- memory ------------------------------------------------------------------------ */

/* Under the mutex: the last freed one of this size, or a new one. */
static struct fake_block *
take_block(struct soma_backend *fake, uint64_t size)
{
	struct fake_block *found = NULL;

	for (int i = 0; i < fake->block_count; i++)
		if (!fake->blocks[i].live && !fake->blocks[i].kept && fake->blocks[i].size == size)
			found = &fake->blocks[i];
	if (found != NULL)
		return found;
	ck_assert_int_lt(fake->block_count, FAKE_BLOCKS);
	found = &fake->blocks[fake->block_count++];
	found->ptr = fake->next_ptr;
	found->size = size;
	fake->next_ptr += (size + 255) / 256 * 256;
	return found;
}

static uint64_t
up(uint64_t size, uint64_t unit)
{
	return unit == 0 ? size : (size + unit - 1) / unit * unit;
}

/* Under the mutex. */
static void
count_pool(struct soma_backend *fake, uint64_t size)
{
	fake->used += up(size, fake->used_unit);
	if (fake->used_high < fake->used)
		fake->used_high = fake->used;
	if (fake->reserved < up(fake->live_bytes, 32 << 20))
		fake->reserved = up(fake->live_bytes, 32 << 20);
	if (fake->reserved_high < fake->reserved)
		fake->reserved_high = fake->reserved;
}

static enum soma_status
fake_alloc(struct soma_backend *fake, uint64_t size, uint64_t alignment, struct soma_backend_stream *stream,
	   uint64_t *ptr)
{
	enum soma_status status = fake_enter(fake, FAKE_ALLOC);

	(void)alignment;
	if (status != SOMA_STATUS_OK)
		return status;
	if (stream != NULL && fake->captures[stream->index] && !(fake->capabilities & SOMA_BACKEND_CAPTURE))
		return SOMA_STATUS_STREAM_MISUSE;
	pthread_mutex_lock(&fake->mutex);
	if (fake->limit != 0 && fake->live_bytes + fake->kept_bytes + size > fake->limit) {
		pthread_mutex_unlock(&fake->mutex);
		return SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	}
	struct fake_block *block = take_block(fake, size);
	block->live = true;
	fake->live_bytes += size;
	fake->live_count++;
	count_pool(fake, size);
	if (fake->live_bytes + fake->kept_bytes > fake->peak_bytes)
		fake->peak_bytes = fake->live_bytes + fake->kept_bytes;
	*ptr = block->ptr;
	if (stream != NULL)
		fake_work(stream, 1);
	if (stream != NULL && fake->streams_run)
		stream->run = stream->queued;
	pthread_mutex_unlock(&fake->mutex);
	fake_leave(fake, FAKE_ALLOC);
	return SOMA_STATUS_OK;
}

static void
note_free(struct fake_block *block, struct soma_backend_stream *stream)
{
	block->free_stream = stream != NULL ? stream->index : -1;
	if (stream == NULL)
		return;
	memcpy(block->free_clock, stream->clock, sizeof stream->clock);
	block->free_position = stream->queued;
	fake_work(stream, 1);
}

static struct fake_block *
oldest_kept(struct soma_backend *fake, int *count)
{
	struct fake_block *oldest = NULL;

	*count = 0;
	for (int i = 0; i < fake->block_count; i++) {
		if (!fake->blocks[i].kept)
			continue;
		oldest = oldest != NULL ? oldest : &fake->blocks[i];
		(*count)++;
	}
	return oldest;
}

/* One step towards `keep` bytes and keep_max blocks; false: there. */
static bool
let_go(struct soma_backend *fake, uint64_t keep, int keep_max)
{
	int count;

	pthread_mutex_lock(&fake->mutex);
	struct fake_block *block = oldest_kept(fake, &count);
	bool go = block != NULL && (fake->kept_bytes > keep || count > keep_max);
	uint64_t ptr = go ? block->ptr : 0, size = go ? block->size : 0;
	if (go) {
		block->kept = false;
		fake->kept_bytes -= size;
	}
	pthread_mutex_unlock(&fake->mutex);
	if (go)
		soma__terminal_released(fake->resource, ptr, size);
	return go;
}

static enum soma_status
fake_free(struct soma_backend *fake, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream)
{
	bool keeps = (fake->capabilities & SOMA_BACKEND_KEEPS_FREED) != 0;
	enum soma_status status = fake_enter(fake, FAKE_FREE);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&fake->mutex);
	struct fake_block *block = fake_block(fake, ptr);
	if (block == NULL || !block->live || block->size != size) {
		fake->bad_free = true;
		pthread_mutex_unlock(&fake->mutex);
		return SOMA_STATUS_INVALID_VALUE;
	}
	block->live = false;
	block->kept = keeps;
	fake->live_bytes -= size;
	fake->kept_bytes += keeps ? size : 0;
	fake->live_count--;
	fake->used -= up(size, fake->used_unit);
	fake->last_free_ptr = ptr;
	note_free(block, stream);
	if (stream != NULL && (fake->streams_run || !(fake->capabilities & SOMA_BACKEND_STREAM_ORDERED)))
		stream->run = stream->queued;
	pthread_mutex_unlock(&fake->mutex);
	while (keeps && let_go(fake, UINT64_MAX, fake->release_within_free ? 0 : fake->keep_max))
		;
	fake_leave(fake, FAKE_FREE);
	return SOMA_STATUS_OK;
}

static enum soma_status
fake_free_recorded(struct soma_backend *fake, uint64_t ptr, uint64_t size, struct soma_backend_stream *stream,
		   struct soma_backend_event *event, bool *recorded)
{
	enum soma_status status = fake_free(fake, ptr, size, stream);

	if (status == SOMA_STATUS_OK)
		*recorded = fake_event_record(fake, event, stream) == SOMA_STATUS_OK;
	return status;
}

/* ---- the rest ------------------------------------------------------------------------------ */

static enum soma_status
fake_block_use(struct soma_backend *fake, uint64_t ptr, enum soma_backend_access access,
	       struct soma_backend_stream *stream)
{
	(void)ptr, (void)access, (void)stream;
	return fake_enter(fake, FAKE_BLOCK_USE);
}

static enum soma_status
fake_block_name(struct soma_backend *fake, uint64_t ptr, uint64_t generation, const char *tag)
{
	(void)fake, (void)ptr, (void)generation, (void)tag;
	return SOMA_STATUS_OK;
}

static enum soma_status
fake_pool_trim(struct soma_backend *fake, uint64_t keep)
{
	enum soma_status status = fake_enter(fake, FAKE_POOL_TRIM);

	fake->trim_keep = keep;
	if (status == SOMA_STATUS_OK && fake->reserved > keep)
		fake->reserved = up(fake->live_bytes > keep ? fake->live_bytes : keep, 32 << 20);
	return status;
}

static uint64_t
figure(const struct soma_backend *fake, enum soma_backend_attribute attribute)
{
	switch (attribute) {
	case SOMA_BACKEND_RESERVED_CURRENT:
		return fake->reserved;
	case SOMA_BACKEND_RESERVED_HIGH:
		return fake->reserved_high;
	case SOMA_BACKEND_USED_CURRENT:
		return fake->used;
	case SOMA_BACKEND_USED_HIGH:
		return fake->used_high;
	default:
		return fake->attributes[attribute];
	}
}

static enum soma_status
fake_pool_get(struct soma_backend *fake, enum soma_backend_attribute attribute, uint64_t *value)
{
	enum soma_status status = fake_enter(fake, FAKE_POOL_GET);

	pthread_mutex_lock(&fake->mutex);
	if (status == SOMA_STATUS_OK)
		*value = figure(fake, attribute) + (uint64_t)fake->lies[attribute];
	pthread_mutex_unlock(&fake->mutex);
	return status;
}

static enum soma_status
fake_pool_set(struct soma_backend *fake, enum soma_backend_attribute attribute, uint64_t value)
{
	enum soma_status status = fake_enter(fake, FAKE_POOL_SET);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&fake->mutex);
	if (attribute <= SOMA_BACKEND_RELEASE_THRESHOLD)
		fake->attributes[attribute] = value;
	else if (attribute == SOMA_BACKEND_USED_HIGH)
		fake->used_high = fake->used;
	else
		fake->reserved_high = fake->reserved;
	pthread_mutex_unlock(&fake->mutex);
	return status;
}

static enum soma_status
fake_export_pool(struct soma_backend *fake, enum soma_backend_handle_kind kind, int *descriptor)
{
	enum soma_status status = fake_enter(fake, FAKE_EXPORT_POOL);

	(void)kind;
	if (status == SOMA_STATUS_OK)
		*descriptor = 77;
	return status;
}

static enum soma_status
fake_peer_can_access(struct soma_backend *fake, int device, bool *can)
{
	*can = device == fake->peer;
	return SOMA_STATUS_OK;
}

static enum soma_status
fake_peer_set_access(struct soma_backend *fake, int device, enum soma_backend_access access)
{
	ck_assert_int_eq(device, fake->peer);
	fake->peer_access = access;
	return SOMA_STATUS_OK;
}

static enum soma_status
fake_guard_settle(struct soma_backend *fake)
{
	return fake_enter(fake, FAKE_GUARD_SETTLE);
}

static enum soma_status
fake_guard_drain(struct soma_backend *fake, uint64_t keep)
{
	enum soma_status status = fake_enter(fake, FAKE_GUARD_DRAIN);

	pthread_mutex_lock(&fake->mutex);
	fake->drain_keep = keep;
	pthread_mutex_unlock(&fake->mutex);
	while (status == SOMA_STATUS_OK && let_go(fake, keep, FAKE_BLOCKS))
		;
	return status;
}

static enum soma_status
fake_guard_stats(struct soma_backend *fake, struct soma_backend_guard_stats *stats)
{
	pthread_mutex_lock(&fake->mutex);
	stats->quarantined_bytes = fake->kept_bytes;
	pthread_mutex_unlock(&fake->mutex);
	return SOMA_STATUS_OK;
}

static void
fake_block_stale(struct soma_backend *fake, uint64_t ptr, uint64_t generation,
		 enum soma_backend_access access, struct soma_backend_stream *stream)
{
	(void)stream;
	pthread_mutex_lock(&fake->mutex);
	fake->stale_ptr = ptr;
	fake->stale_generation = generation;
	fake->stale_access = access;
	pthread_mutex_unlock(&fake->mutex);
}

static const struct soma_backend_ops ops = {
	.size = sizeof ops,
	.query = fake_query,
	.alloc = fake_alloc,
	.free = fake_free,
	.stream_create = fake_stream_create,
	.stream_default = fake_stream_default,
	.stream_wrap = fake_stream_wrap,
	.stream_destroy = fake_stream_destroy,
	.stream_info = fake_stream_info,
	.stream_synchronize = fake_stream_synchronize,
	.synchronize = fake_synchronize,
	.event_create = fake_event_create,
	.event_destroy = fake_event_destroy,
	.event_record = fake_event_record,
	.event_wait = fake_event_wait,
	.event_query = fake_event_query,
	.event_synchronize = fake_event_synchronize,
	.block_use = fake_block_use,
	.block_name = fake_block_name,
	.block_stale = fake_block_stale,
	.pool_trim = fake_pool_trim,
	.pool_get = fake_pool_get,
	.pool_set = fake_pool_set,
	.export_pool = fake_export_pool,
	.peer_can_access = fake_peer_can_access,
	.peer_set_access = fake_peer_set_access,
	.guard_settle = fake_guard_settle,
	.guard_drain = fake_guard_drain,
	.guard_stats = fake_guard_stats,
};

static void
note_closed(void *context)
{
	((struct soma_backend *)context)->closed = true;
}

struct soma_backend *
fake_create(uint64_t capabilities, struct soma_resource **resource)
{
	static struct soma_backend_ops records;
	struct soma_backend *fake = calloc(1, sizeof *fake);
	struct soma__terminal_config config = {
		.backend = { .size = sizeof config.backend,
			     .name = "fake",
			     .ops = capabilities & FAKE_RECORDS ? &records : &ops,
			     .self = fake },
		.closed = note_closed,
		.context = fake,
	};

	records = ops;
	records.free_recorded = fake_free_recorded;
	fake->capabilities = capabilities & ~FAKE_RECORDS;
	fake->next_ptr = (uint64_t)1 << 40;
	fake->keep_max = FAKE_BLOCKS;
	pthread_mutex_init(&fake->mutex, NULL);
	ck_assert_int_eq(soma__terminal_create(&config, resource), SOMA_STATUS_OK);
	fake->resource = *resource;
	return fake;
}

void
fake_destroy(struct soma_backend *fake)
{
	ck_assert(fake->closed);
	ck_assert(!fake->bad_free);
	ck_assert_int_eq(fake->events, 0);
	for (int i = 0; i < fake->stream_count; i++)
		ck_assert(fake->streams[i].gone);
	pthread_mutex_destroy(&fake->mutex);
	free(fake);
}

struct soma_backend_stream *
fake_stream(struct soma_resource *resource, uint64_t stream)
{
	return soma__stream_find(&resource->terminal->streams, stream)->handle;
}

void
fake_run(struct soma_backend *fake, struct soma_resource *resource, uint64_t stream)
{
	struct soma_backend_stream *handle = fake_stream(resource, stream);

	pthread_mutex_lock(&fake->mutex);
	handle->run = handle->queued;
	pthread_mutex_unlock(&fake->mutex);
}

void
fake_run_all(struct soma_backend *fake)
{
	pthread_mutex_lock(&fake->mutex);
	for (int i = 0; i < fake->stream_count; i++)
		fake->streams[i].run = fake->streams[i].queued;
	pthread_mutex_unlock(&fake->mutex);
}

void
fake_work(struct soma_backend_stream *stream, uint64_t n)
{
	stream->queued += n;
	stream->clock[stream->index] = stream->queued;
}

bool
fake_ordered(const struct soma_backend_stream *later, const struct soma_backend_stream *earlier,
	     uint64_t position)
{
	return later->clock[earlier->index] >= position;
}

struct fake_block *
fake_block(struct soma_backend *fake, uint64_t ptr)
{
	for (int i = fake->block_count; i-- > 0;)
		if (fake->blocks[i].ptr == ptr)
			return &fake->blocks[i];
	return NULL;
}

uint64_t
fake_count(struct soma_backend *fake, enum fake_op op)
{
	return atomic_load(&fake->counts[op]);
}
