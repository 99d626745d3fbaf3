/* SPDX-License-Identifier: Apache-2.0 */
/* Two hash tables over the same entries; see the header for the lock. */
#include "lib/runtime/registry.h"

/* Ids differ in their low bits as a rule, but need not. */
static unsigned
bucket(uint64_t id)
{
	return (unsigned)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 57) % SOMA__REGISTRY_BUCKETS;
}

void
soma__registry_init(struct soma__registry *registry, struct soma__arena *arena)
{
	*registry = (struct soma__registry){ .arena = arena };
	pthread_mutex_init(&registry->mutex, NULL);
}

void
soma__registry_fini(struct soma__registry *registry)
{
	pthread_mutex_destroy(&registry->mutex);
}

struct soma__stream_entry *
soma__registry_new(struct soma__registry *registry)
{
	return soma__arena_calloc(registry->arena, sizeof(struct soma__stream_entry), 0);
}

void
soma__registry_free(struct soma__registry *registry, struct soma__stream_entry *entry)
{
	soma__arena_free(registry->arena, entry, sizeof *entry);
}

void
soma__registry_add(struct soma__registry *registry, struct soma__stream_entry *entry)
{
	struct soma__stream_entry **by_id = &registry->by_id[bucket(entry->id)];
	struct soma__stream_entry **by_backend = &registry->by_backend[bucket(entry->backend_id)];

	entry->next_id = *by_id;
	*by_id = entry;
	entry->next_backend = *by_backend;
	*by_backend = entry;
}

void
soma__registry_remove(struct soma__registry *registry, struct soma__stream_entry *entry)
{
	struct soma__stream_entry **at = &registry->by_id[bucket(entry->id)];

	while (*at != entry)
		at = &(*at)->next_id;
	*at = entry->next_id;
	at = &registry->by_backend[bucket(entry->backend_id)];
	while (*at != entry)
		at = &(*at)->next_backend;
	*at = entry->next_backend;
}

struct soma__stream_entry *
soma__registry_by_id(struct soma__registry *registry, uint64_t id)
{
	struct soma__stream_entry *entry = registry->by_id[bucket(id)];

	while (entry != NULL && (entry->id != id || entry->count == 0))
		entry = entry->next_id;
	return entry;
}

struct soma__stream_entry *
soma__registry_by_backend(struct soma__registry *registry, uint64_t backend_id)
{
	struct soma__stream_entry *entry = registry->by_backend[bucket(backend_id)];

	while (entry != NULL && (entry->backend_id != backend_id || entry->count == 0))
		entry = entry->next_backend;
	return entry;
}
