/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: size classes, slabs, and who holds which.  Where slabs come from is pages.c.
 *
 * A slot is vacant, or live, or claimed.  `vacant` is its class mutex's; `live` is atomic, so
 * that a free is checked without a lock, and a second one of two at once fails.
 */
#include "backends/host/heap_internal.h"

#include <stddef.h>

#define SLOTS_MAX 64u
#define SLOTS_MIN 8u

/* ---- size classes ----------------------------------------------------------- */

static uint32_t
class_block(unsigned index)
{
	if (index < 4)
		return (index + 1) * HEAP_ALIGNMENT;
	return ((index - 4) % 4 + 5) * HEAP_ALIGNMENT << (index - 4) / 4;
}

static unsigned
class_index(uint64_t size)
{
	unsigned n = (unsigned)((size + HEAP_ALIGNMENT - 1) / HEAP_ALIGNMENT);

	if (n <= 4)
		return n - 1;
	unsigned doubling = 29u - (unsigned)__builtin_clz(n - 1);
	return 4 * doubling + ((n - 1) >> doubling);
}

static void
class_shape(struct heap_class *class, unsigned index)
{
	class->block = class_block(index);
	class->pages = 1;
	while (class->pages * PAGE_BYTES < (uint64_t) class->block * SLOTS_MIN)
		class->pages *= 2;
	uint64_t slots = class->pages * PAGE_BYTES / class->block;
	class->slots = slots < SLOTS_MAX ? (uint32_t)slots : SLOTS_MAX;
}

/*
 * The calling thread's classes: the first threads each have their own.  Only the thread itself
 * ever looks for its key, so the shard beside it needs no order.  Not _Thread_local:
 * LeakSanitizer does not survive that in a module.
 */
static struct heap_class *
own_classes(struct heap *heap)
{
	uintptr_t key = (uintptr_t)pthread_self();
	size_t at = (size_t)((key * 0x9e3779b97f4a7c15u) >> 57);

	for (unsigned probe = 0; probe < 8; probe++, at = (at + 1) % HEAP_THREADS) {
		struct heap_thread *thread = &heap->threads[at];
		uintptr_t found = atomic_load_explicit(&thread->key, memory_order_relaxed);
		if (found == 0 && atomic_compare_exchange_strong(&thread->key, &found, key)) {
			unsigned number = atomic_fetch_add(&heap->thread_count, 1);
			thread->shard = number % HEAP_SHARDS;
			found = key;
		}
		if (found == key)
			return heap->classes[thread->shard];
	}
	return heap->classes[at % HEAP_SHARDS];
}

bool
heap_init(struct heap *heap, const struct soma_backend_host *host, uint64_t limit, uint64_t threshold,
	  bool huge)
{
	heap->host = host;
	heap->huge = huge;
	heap->limit = limit;
	atomic_init(&heap->threshold, threshold);
	if (pthread_mutex_init(&heap->mutex, NULL) != 0)
		return false;
	for (unsigned i = 0; i < HEAP_SHARDS * HEAP_CLASSES; i++) {
		struct heap_class *class = &heap->classes[i / HEAP_CLASSES][i % HEAP_CLASSES];
		class_shape(class, i % HEAP_CLASSES);
		if (pthread_mutex_init(&class->mutex, NULL) != 0)
			return false;
	}
	return true;
}

/* ---- slabs ------------------------------------------------------------------ */

/* Records of single blocks are kept: giving one back costs the arena a system call. */
static struct heap_slab *
single_record(struct heap *heap)
{
	pthread_mutex_lock(&heap->mutex);
	struct heap_slab *slab = heap->records;
	if (slab != NULL)
		heap->records = slab->next;
	pthread_mutex_unlock(&heap->mutex);
	return slab;
}

struct heap_slab *
heap__slab_new(struct heap *heap, uint32_t slots)
{
	size_t size = sizeof(struct heap_slab) + slots * sizeof(struct item);
	struct heap_slab *slab = slots == 1 ? single_record(heap) : NULL;

	if (slab == NULL && (slab = heap->host->alloc(heap->host->context, size, 0)) == NULL)
		return NULL;
	*slab = (struct heap_slab){ .slots = slots };
	slab->vacant = slots == 64 ? UINT64_MAX : ((uint64_t)1 << slots) - 1;
	for (uint32_t i = 0; i < slots; i++)
		slab->items[i] = (struct item){ .slot = i };
	return slab;
}

void
heap__slab_delete(struct heap *heap, struct heap_slab *slab)
{
	if (slab->slots == 1) {
		pthread_mutex_lock(&heap->mutex);
		slab->next = heap->records;
		heap->records = slab;
		pthread_mutex_unlock(&heap->mutex);
		return;
	}
	heap->host->free(heap->host->context, slab, sizeof *slab + slab->slots * sizeof(struct item));
}

static enum soma_status
slab_create(struct heap *heap, struct heap_class *class, struct heap_slab **out)
{
	struct heap_slab *slab = heap__slab_new(heap, class->slots);

	if (slab == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	slab->class = class;
	enum soma_status status = heap__pages_take(heap, slab, class->pages, PAGE_BYTES);
	if (status != SOMA_STATUS_OK) {
		heap__slab_delete(heap, slab);
		return status;
	}
	*out = slab;
	return SOMA_STATUS_OK;
}

static void
slab_dissolve(struct heap *heap, struct heap_slab *slab)
{
	heap__pages_put(heap, slab);
	heap__slab_delete(heap, slab);
}

static void
partial_push(struct heap_class *class, struct heap_slab *slab)
{
	slab->prev = NULL;
	slab->next = class->partial;
	if (slab->next != NULL)
		slab->next->prev = slab;
	class->partial = slab;
}

static void
partial_remove(struct heap_class *class, struct heap_slab *slab)
{
	if (slab->prev != NULL)
		slab->prev->next = slab->next;
	else
		class->partial = slab->next;
	if (slab->next != NULL)
		slab->next->prev = slab->prev;
}

/* ---- take ------------------------------------------------------------------- */

static void
count_used(struct heap *heap, uint64_t size)
{
	heap__raise(&heap->used_high, atomic_fetch_add(&heap->used, size) + size);
}

/* A vacant slot of the class, or false: its mutex is held. */
static bool
slot_take(struct heap_class *class, struct heap_slab **slab, unsigned *slot)
{
	struct heap_slab *s = class->partial;

	if (s == NULL) {
		if ((s = class->empty) == NULL)
			return false;
		class->empty = NULL;
		partial_push(class, s);
	}
	*slot = (unsigned)__builtin_ctzll(s->vacant);
	s->vacant &= s->vacant - 1;
	if (s->vacant == 0)
		partial_remove(class, s);
	*slab = s;
	return true;
}

static void
give_out(struct heap *heap, struct heap_slab *slab, unsigned slot, uint64_t size)
{
	slab->items[slot].size = size;
	atomic_fetch_or_explicit(&slab->live, (uint64_t)1 << slot, memory_order_release);
	count_used(heap, size);
}

static enum soma_status
take_slot(struct heap *heap, struct heap_class *class, uint64_t size, uint64_t *ptr)
{
	struct heap_slab *slab;
	unsigned slot;

	pthread_mutex_lock(&class->mutex);
	while (!slot_take(class, &slab, &slot)) {
		pthread_mutex_unlock(&class->mutex);
		enum soma_status status = slab_create(heap, class, &slab);
		if (status != SOMA_STATUS_OK)
			return status;
		pthread_mutex_lock(&class->mutex);
		partial_push(class, slab);
	}
	pthread_mutex_unlock(&class->mutex);
	give_out(heap, slab, slot, size);
	*ptr = slab->base + (uint64_t)slot * class->block;
	return SOMA_STATUS_OK;
}

static enum soma_status
take_run(struct heap *heap, uint64_t size, uint64_t alignment, uint64_t *ptr)
{
	struct heap_slab *slab = heap__slab_new(heap, 1);

	if (slab == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	enum soma_status status =
		heap__pages_take(heap, slab, (size + PAGE_BYTES - 1) >> PAGE_SHIFT, alignment);
	if (status != SOMA_STATUS_OK) {
		heap__slab_delete(heap, slab);
		return status;
	}
	give_out(heap, slab, 0, size);
	*ptr = slab->base;
	return SOMA_STATUS_OK;
}

static enum soma_status
take_mapping(struct heap *heap, uint64_t size, uint64_t alignment, uint64_t *ptr)
{
	struct heap_slab *slab;

	enum soma_status status = heap__mapping_take(heap, size, alignment, &slab);
	if (status != SOMA_STATUS_OK)
		return status;
	give_out(heap, slab, 0, size);
	*ptr = slab->base;
	return SOMA_STATUS_OK;
}

/* The class whose every slot is aligned so: slabs start on a page, so its block's size must be
 * a multiple.  HEAP_CLASSES: none. */
static unsigned
class_for(uint64_t size, uint64_t alignment)
{
	unsigned index = HEAP_CLASSES;

	if (size <= class_block(HEAP_CLASSES - 1) && alignment <= PAGE_BYTES)
		index = class_index((size + alignment - 1) & -alignment);
	while (index < HEAP_CLASSES && (class_block(index) & (alignment - 1)) != 0)
		index++;
	return index;
}

enum soma_status
heap_take(struct heap *heap, uint64_t size, uint64_t alignment, uint64_t *ptr)
{
	if (alignment < HEAP_ALIGNMENT)
		alignment = HEAP_ALIGNMENT;
	unsigned index = class_for(size, alignment);
	if (index < HEAP_CLASSES)
		return take_slot(heap, &own_classes(heap)[index], size, ptr);
	if (alignment < PAGE_BYTES)
		alignment = PAGE_BYTES;
	if (size <= RUN_MAX && alignment <= HEAP_GRANULARITY)
		return take_run(heap, size, alignment, ptr);
	return take_mapping(heap, size, alignment, ptr);
}

/* ---- claim and put ------------------------------------------------------------ */

static bool
slot_at(const struct heap_slab *slab, uint64_t ptr, uint64_t *slot)
{
	uint64_t offset = ptr - slab->base;

	*slot = 0;
	if (slab->class == NULL)
		return offset == 0;
	*slot = (uint32_t)offset / slab->class->block;
	return (uint32_t)offset % slab->class->block == 0 && *slot < slab->slots;
}

struct item *
heap_claim(struct heap *heap, uint64_t ptr, uint64_t size)
{
	struct heap_slab *slab = heap__slab_at(heap, ptr);
	uint64_t slot;

	if (slab == NULL || !slot_at(slab, ptr, &slot))
		return NULL;
	uint64_t bit = (uint64_t)1 << slot;
	if ((atomic_fetch_and_explicit(&slab->live, ~bit, memory_order_acq_rel) & bit) == 0)
		return NULL;
	if (slab->items[slot].size == size)
		return &slab->items[slot];
	atomic_fetch_or_explicit(&slab->live, bit, memory_order_release);
	return NULL;
}

/* The slot is vacant again; a slab that is now empty and not to be kept is returned. */
static struct heap_slab *
slot_put(struct heap_class *class, struct heap_slab *slab, uint64_t bit)
{
	if (slab->vacant == 0)
		partial_push(class, slab);
	slab->vacant |= bit;
	if ((unsigned)__builtin_popcountll(slab->vacant) != slab->slots)
		return NULL;
	partial_remove(class, slab);
	if (class->empty != NULL)
		return slab;
	class->empty = slab;
	return NULL;
}

void
heap_put(struct heap *heap, struct item *item)
{
	struct heap_slab *slab = (void *)((char *)(item - item->slot) - offsetof(struct heap_slab, items));
	struct heap_slab *surplus = NULL;

	atomic_fetch_sub(&heap->used, item->size);
	if (slab->chunk == NULL) {
		heap__mapping_put(heap, slab);
		return;
	}
	if (slab->class == NULL) {
		surplus = slab;
	} else {
		pthread_mutex_lock(&slab->class->mutex);
		surplus = slot_put(slab->class, slab, (uint64_t)1 << item->slot);
		pthread_mutex_unlock(&slab->class->mutex);
	}
	if (surplus != NULL)
		slab_dissolve(heap, surplus);
}

void
heap__drop_empty(struct heap *heap)
{
	for (unsigned i = 0; i < HEAP_SHARDS * HEAP_CLASSES; i++) {
		struct heap_class *class = &heap->classes[i / HEAP_CLASSES][i % HEAP_CLASSES];
		pthread_mutex_lock(&class->mutex);
		struct heap_slab *slab = class->empty;
		class->empty = NULL;
		pthread_mutex_unlock(&class->mutex);
		if (slab != NULL)
			slab_dissolve(heap, slab);
	}
}
