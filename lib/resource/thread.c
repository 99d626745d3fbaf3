/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread indices and slots.  An index is given at the first call and taken back by a
 * thread-exit handler; `mutex` is between two owners of an index, so the second one sees
 * all that the first one wrote.  Chunks of slots are made once and never move.
 */
#include "lib/resource/thread.h"

#include <pthread.h>
#include <string.h>

#define NEVER_AGAIN (SOMA__THREAD_SHARED + 1)

_Thread_local struct soma__self soma__self;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool taken[SOMA__THREADS_OWNING]; /* mutex */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;

/* Exit handlers that run later and call soma use the shared slot. */
static void
leave(void *value)
{
	uint32_t index = (uint32_t)(uintptr_t)value - 1;

	soma__self.index = NEVER_AGAIN;
	pthread_mutex_lock(&mutex);
	taken[index] = false;
	pthread_mutex_unlock(&mutex);
}

static void
make_key(void)
{
	have_key = pthread_key_create(&key, leave) == 0;
}

static unsigned
take_index(void)
{
	unsigned index = 0;

	pthread_mutex_lock(&mutex);
	while (index < SOMA__THREADS_OWNING && taken[index])
		index++;
	if (index < SOMA__THREADS_OWNING)
		taken[index] = true;
	pthread_mutex_unlock(&mutex);
	return index < SOMA__THREADS_OWNING ? index : SOMA__THREAD_SHARED;
}

unsigned
soma__thread_join(void)
{
	unsigned index = SOMA__THREAD_SHARED;

	pthread_once(&once, make_key);
	if (have_key)
		index = take_index();
	if (index != SOMA__THREAD_SHARED && pthread_setspecific(key, (void *)(uintptr_t)(index + 1)) != 0) {
		pthread_mutex_lock(&mutex);
		taken[index] = false;
		pthread_mutex_unlock(&mutex);
		index = SOMA__THREAD_SHARED;
	}
	soma__self.index = index + 1;
	return index;
}

/* ---- slots ------------------------------------------------------------------------ */

enum soma_status
soma__slots_init(struct soma__slots *slots, struct soma__arena *arena, size_t slot_size)
{
	memset(slots, 0, sizeof *slots);
	slots->arena = arena;
	slots->slot_size = slot_size;
	slots->shared = soma__arena_calloc(arena, slot_size, 128);
	if (slots->shared == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	slots->shared->shared = true;
	return SOMA_STATUS_OK;
}

void
soma__slots_fini(struct soma__slots *slots)
{
	for (size_t i = 0; i < sizeof slots->chunk / sizeof slots->chunk[0]; i++)
		soma__arena_free(slots->arena, atomic_load(&slots->chunk[i]),
				 SOMA__SLOT_CHUNK * slots->slot_size);
	soma__arena_free(slots->arena, slots->shared, slots->slot_size);
}

struct soma__slot *
soma__slots_make(struct soma__slots *slots, unsigned index)
{
	void *_Atomic *place = &slots->chunk[index / SOMA__SLOT_CHUNK];
	void *none = NULL,
	     *chunk = soma__arena_calloc(slots->arena, SOMA__SLOT_CHUNK * slots->slot_size, 128);

	if (chunk == NULL)
		return slots->shared;
	if (!atomic_compare_exchange_strong(place, &none, chunk)) {
		soma__arena_free(slots->arena, chunk, SOMA__SLOT_CHUNK * slots->slot_size);
		chunk = none;
	}
	return (struct soma__slot *)(void *)((char *)chunk + index % SOMA__SLOT_CHUNK * slots->slot_size);
}

struct soma__slot *
soma__slots_next(struct soma__slots *slots, unsigned *position)
{
	while (*position < SOMA__THREADS_OWNING) {
		unsigned at = *position;
		char *chunk =
			atomic_load_explicit(&slots->chunk[at / SOMA__SLOT_CHUNK], memory_order_acquire);
		if (chunk != NULL) {
			(*position)++;
			return (struct soma__slot *)(void *)(chunk +
							     at % SOMA__SLOT_CHUNK * slots->slot_size);
		}
		*position += SOMA__SLOT_CHUNK - at % SOMA__SLOT_CHUNK;
	}
	return (*position)++ == SOMA__THREADS_OWNING ? slots->shared : NULL;
}
