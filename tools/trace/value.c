/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a pickle's containers.  Nothing here follows references, so nesting
 * and cycles cost nothing.
 */
#include "tools/trace/value.h"

#include <string.h>

#include "tools/trace/memory.h"

#define CHUNK_OBJECTS 500
#define HELD_LIMIT ((uint64_t)1 << 28) /* 4 GiB of values: no snapshot, but a bomb */

struct pickle_chunk {
	struct pickle_chunk *next;
	size_t used;
	struct pickle_object object[CHUNK_OBJECTS];
};

static struct pickle_object *
take_object(struct pickle_store *store)
{
	struct pickle_object *object = store->free;
	struct pickle_chunk *chunk = store->chunk;

	if (object != NULL) {
		store->free = object->next_free;
		return object;
	}
	if (chunk == NULL || chunk->used == CHUNK_OBJECTS) {
		chunk = trace_resize(NULL, sizeof *chunk);
		if (chunk == NULL)
			return NULL;
		chunk->next = store->chunk;
		chunk->used = 0;
		store->chunk = chunk;
	}
	return &chunk->object[chunk->used++];
}

struct pickle_object *
pickle_object_new(struct pickle_store *store, enum pickle_type type, uint64_t offset)
{
	struct pickle_object *object = take_object(store);

	if (object == NULL)
		return NULL;
	memset(object, 0, sizeof *object);
	object->type = (uint8_t)type;
	object->memo = PICKLE_NO_MEMO;
	object->offset = offset;
	return object;
}

bool
pickle_object_append(struct pickle_store *store, struct pickle_object *object,
		     const struct pickle_value *value, size_t count)
{
	size_t want = object->count + count, capacity;
	struct pickle_value *item;

	if (store->held + count > HELD_LIMIT)
		return false;
	if (want > object->capacity) {
		capacity = object->count == 0 ? want : want + want / 2;
		item = trace_resize(object->item, capacity * sizeof *item);
		if (item == NULL)
			return false;
		object->item = item;
		object->capacity = (uint32_t)capacity;
	}
	memcpy(object->item + object->count, value, count * sizeof *value);
	object->count = (uint32_t)want;
	store->held += count;
	return true;
}

void
pickle_object_clear(struct pickle_store *store, struct pickle_object *object)
{
	if (object->use == 0 && object->item != NULL) {
		store->held -= object->count;
		trace_release(object->item);
	}
	memset(object->word, 0, sizeof object->word);
}

void
pickle_object_drop(struct pickle_store *store, struct pickle_object *object)
{
	pickle_object_clear(store, object);
	object->use = 1;
	object->next_free = store->free;
	store->free = object;
}

void
pickle_store_reset(struct pickle_store *store)
{
	struct pickle_chunk *chunk;

	while ((chunk = store->chunk) != NULL) {
		for (size_t i = 0; i < chunk->used; i++)
			if (chunk->object[i].use == 0)
				trace_release(chunk->object[i].item);
		store->chunk = chunk->next;
		trace_release(chunk);
	}
	memset(store, 0, sizeof *store);
}
