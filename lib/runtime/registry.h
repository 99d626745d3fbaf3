/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that programs acquired or wrapped, by soma's id and by the backend's.  The backend's id tells apart what
 * had the same handle one after the other; the handle itself is a key nowhere.
 *
 * The registry has no lock: the runtime's streams.c holds `mutex`, but for making and freeing entries, which are in no
 * chain then.
 */
#ifndef SOMA_LIB_RUNTIME_REGISTRY_H
#define SOMA_LIB_RUNTIME_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/arena/arena.h"

#define SOMA__REGISTRY_BUCKETS 128u

struct soma__stream_entry {
	struct soma__stream_entry *next_id;      /* in its chain by id */
	struct soma__stream_entry *next_backend; /* in its chain by backend_id */
	uint64_t id;
	uint64_t backend_id;
	uint32_t count; /* 0: it is being released */
};

struct soma__registry {
	pthread_mutex_t mutex;
	struct soma__arena *arena;
	struct soma__stream_entry *by_id[SOMA__REGISTRY_BUCKETS];
	struct soma__stream_entry *by_backend[SOMA__REGISTRY_BUCKETS];
};

void soma__registry_init(struct soma__registry *registry, struct soma__arena *arena);
/* The arena takes the entries. */
void soma__registry_fini(struct soma__registry *registry);

/* An entry that is in no chain; NULL without memory. */
struct soma__stream_entry *soma__registry_new(struct soma__registry *registry);
void soma__registry_free(struct soma__registry *registry, struct soma__stream_entry *entry);

void soma__registry_add(struct soma__registry *registry, struct soma__stream_entry *entry);
void soma__registry_remove(struct soma__registry *registry, struct soma__stream_entry *entry);

/* NULL: none, or it is being released. */
struct soma__stream_entry *soma__registry_by_id(struct soma__registry *registry, uint64_t id);
struct soma__stream_entry *soma__registry_by_backend(struct soma__registry *registry, uint64_t backend_id);

#endif
