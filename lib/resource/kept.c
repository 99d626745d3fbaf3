/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of kept blocks: chains of records, each shard with its mutex.
 */
#include "lib/resource/kept.h"

#include <inttypes.h>

#include "lib/base/log.h"

static struct soma__kept_shard *
shard_of(struct soma__kept *kept, uint64_t ptr, struct soma__record ***bucket)
{
	uint64_t h = (ptr >> 4) * 0x9e3779b97f4a7c15u;
	struct soma__kept_shard *shard = &kept->shards[h >> 60];

	*bucket = &shard->buckets[h >> 52 & (SOMA__KEPT_BUCKETS - 1)];
	return shard;
}

enum soma_status
soma__kept_init(struct soma__kept *kept, struct soma__arena *arena)
{
	kept->shards = soma__arena_calloc(arena, SOMA__KEPT_SHARDS * sizeof *kept->shards, 64);
	if (kept->shards == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	for (unsigned i = 0; i < SOMA__KEPT_SHARDS; i++)
		pthread_mutex_init(&kept->shards[i].mutex, NULL);
	return SOMA_STATUS_OK;
}

void
soma__kept_fini(struct soma__kept *kept)
{
	for (unsigned i = 0; kept->shards != NULL && i < SOMA__KEPT_SHARDS; i++)
		pthread_mutex_destroy(&kept->shards[i].mutex);
}

void
soma__kept_add(struct soma__kept *kept, struct soma__record *record)
{
	struct soma__record **at;
	struct soma__kept_shard *shard = shard_of(kept, record->ptr, &at);

	record->queued = NULL;
	record->waits_release = true;
	record->released = false;
	record->told = false;
	pthread_mutex_lock(&shard->mutex);
	while (*at != NULL)
		at = &(*at)->queued;
	*at = record;
	pthread_mutex_unlock(&shard->mutex);
}

static void
unlink_record(struct soma__record **at, struct soma__record *record)
{
	while (*at != record)
		at = &(*at)->queued;
	*at = record->queued;
	record->queued = NULL;
}

bool
soma__kept_through(struct soma__kept *kept, struct soma__record *record, bool failed)
{
	struct soma__record **at;
	struct soma__kept_shard *shard = shard_of(kept, record->ptr, &at);
	bool ours;

	pthread_mutex_lock(&shard->mutex);
	ours = failed || record->told;
	if (ours)
		unlink_record(at, record);
	record->waits_release = false;
	pthread_mutex_unlock(&shard->mutex);
	return ours;
}

struct soma__record *
soma__kept_release(struct soma__kept *kept, uint64_t ptr, bool *early)
{
	struct soma__record **at, *record;
	struct soma__kept_shard *shard = shard_of(kept, ptr, &at);

	pthread_mutex_lock(&shard->mutex);
	for (record = *at; record != NULL; record = record->queued)
		if (record->ptr == ptr && !record->released)
			break;
	*early = record != NULL && record->waits_release;
	if (*early)
		record->released = true;
	else if (record != NULL)
		unlink_record(at, record);
	pthread_mutex_unlock(&shard->mutex);
	if (record == NULL)
		soma__log(SOMA_LOG_WARNING,
			  "a backend released 0x%" PRIx64 ", which is no freed block of its", ptr);
	return record;
}

bool
soma__kept_told(struct soma__kept *kept, struct soma__record *record)
{
	struct soma__record **at;
	struct soma__kept_shard *shard = shard_of(kept, record->ptr, &at);
	bool ours;

	pthread_mutex_lock(&shard->mutex);
	ours = !record->waits_release;
	if (ours)
		unlink_record(at, record);
	record->told = true;
	pthread_mutex_unlock(&shard->mutex);
	return ours;
}

static uint64_t
shard_of_tenant(struct soma__kept_shard *shard, const struct soma__account *tenant)
{
	uint64_t bytes = 0;

	pthread_mutex_lock(&shard->mutex);
	for (unsigned i = 0; i < SOMA__KEPT_BUCKETS; i++)
		for (struct soma__record *r = shard->buckets[i]; r != NULL; r = r->queued)
			bytes += soma__account_is_charged(r->tenant, tenant) ? r->bytes : 0;
	pthread_mutex_unlock(&shard->mutex);
	return bytes;
}

uint64_t
soma__kept_of(struct soma__kept *kept, const struct soma__account *tenant)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; kept->shards != NULL && i < SOMA__KEPT_SHARDS; i++)
		bytes += shard_of_tenant(&kept->shards[i], tenant);
	return bytes;
}
