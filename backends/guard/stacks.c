/* SPDX-License-Identifier: Apache-2.0 */
/* Capturing and keeping stacks; see stacks.h.  Unwinds under no lock. */
#include "backends/guard/stacks.h"

#include <stddef.h>
#include <string.h>
#include <unwind.h>

#include "backends/guard/local.h"

#define STACKS_MAX 8192u
#define INDEX_SLOTS (2 * STACKS_MAX)
#define CHUNK_BYTES ((size_t)64 << 10)

struct stack_chunk {
	struct stack_chunk *next;
	size_t used;
	char bytes[];
};

struct walk {
	char *frame; /* of the function whose callers are wanted */
	uint32_t count, most;
	bool placed; /* all places are known */
	void *pc[STACK_FRAMES_MAX];
	void **place[STACK_FRAMES_MAX];
};

static _Atomic uint64_t next_serial = 1;

bool
stacks_init(struct stacks *stacks, const struct soma_backend_host *host, uint32_t depth)
{
	memset(stacks, 0, sizeof *stacks);
	stacks->host = host;
	stacks->depth = depth < STACK_FRAMES_MAX ? depth : STACK_FRAMES_MAX;
	stacks->serial = atomic_fetch_add(&next_serial, 1);
	if (pthread_mutex_init(&stacks->mutex, NULL) != 0)
		return false;
	if (depth == 0)
		return true;
	stacks->index = host->alloc(host->context, INDEX_SLOTS * sizeof *stacks->index, 0);
	stacks->entries = host->alloc(host->context, STACKS_MAX * sizeof *stacks->entries, 0);
	if (stacks->index == NULL || stacks->entries == NULL) {
		stacks_fini(stacks);
		return false;
	}
	memset(stacks->index, 0, INDEX_SLOTS * sizeof *stacks->index);
	memset((void *)stacks->entries, 0, STACKS_MAX * sizeof *stacks->entries);
	return true;
}

void
stacks_fini(struct stacks *stacks)
{
	const struct soma_backend_host *host = stacks->host;

	if (host == NULL)
		return;
	while (stacks->chunks != NULL) {
		struct stack_chunk *chunk = stacks->chunks;
		stacks->chunks = chunk->next;
		host->free(host->context, chunk, CHUNK_BYTES);
	}
	if (stacks->index != NULL)
		host->free(host->context, stacks->index, INDEX_SLOTS * sizeof *stacks->index);
	if (stacks->entries != NULL)
		host->free(host->context, (void *)stacks->entries, STACKS_MAX * sizeof *stacks->entries);
	pthread_mutex_destroy(&stacks->mutex);
	memset(stacks, 0, sizeof *stacks);
}

#if defined(__x86_64__)
#define PLACE_BELOW_SP 1 /* a call leaves the return address just below the caller's stack pointer */
#else
#define PLACE_BELOW_SP 0
#endif

static _Unwind_Reason_Code
step(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	char *sp = (char *)_Unwind_GetCFA(context);
	void *pc = (void *)_Unwind_GetIP(context);

	if (pc == NULL)
		return _URC_END_OF_STACK;
	if (sp <= walk->frame + sizeof(void *))
		return _URC_NO_REASON;
	void **place = (void **)(void *)sp - 1;
	if (!PLACE_BELOW_SP || *place != pc)
		walk->placed = false;
	walk->pc[walk->count] = pc;
	walk->place[walk->count] = place;
	return ++walk->count == walk->most ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static uint64_t
hash_frames(void *const *pc, uint32_t count)
{
	uint64_t hash = 0x9e3779b97f4a7c15u;

	for (uint32_t i = 0; i < count; i++)
		hash = ((hash ^ (uint64_t)(uintptr_t)pc[i]) * 0xff51afd7ed558ccdu) ^ (hash >> 29);
	return hash ^ (hash >> 32);
}

static void *
take(struct stacks *stacks, size_t bytes)
{
	struct stack_chunk *chunk = stacks->chunks;

	if (chunk == NULL || chunk->used + bytes > CHUNK_BYTES - sizeof *chunk) {
		chunk = stacks->host->alloc(stacks->host->context, CHUNK_BYTES, 0);
		if (chunk == NULL)
			return NULL;
		chunk->next = stacks->chunks;
		chunk->used = 0;
		stacks->chunks = chunk;
	}
	void *at = chunk->bytes + chunk->used;
	chunk->used += bytes;
	return at;
}

static uint32_t
add(struct stacks *stacks, const struct walk *walk, uint64_t hash, uint32_t slot)
{
	size_t bytes = sizeof(struct stack) + walk->count * sizeof(void *);
	struct stack *stack = stacks->count + 1 < STACKS_MAX ? take(stacks, bytes) : NULL;

	if (stack == NULL)
		return STACK_NONE;
	stack->hash = hash;
	stack->count = walk->count;
	memcpy(stack->frame, walk->pc, walk->count * sizeof(void *));
	uint32_t id = ++stacks->count;
	atomic_store_explicit(&stacks->entries[id], stack, memory_order_release);
	stacks->index[slot] = id;
	return id;
}

static uint32_t
intern(struct stacks *stacks, const struct walk *walk)
{
	uint64_t hash = hash_frames(walk->pc, walk->count);
	uint32_t slot = (uint32_t)hash % INDEX_SLOTS, id;

	pthread_mutex_lock(&stacks->mutex);
	for (; (id = stacks->index[slot]) != 0; slot = (slot + 1) % INDEX_SLOTS) {
		const struct stack *stack = stacks->entries[id];
		if (stack->hash == hash && stack->count == walk->count &&
		    memcmp(stack->frame, walk->pc, walk->count * sizeof(void *)) == 0)
			break;
	}
	if (id == 0)
		id = add(stacks, walk, hash, slot);
	pthread_mutex_unlock(&stacks->mutex);
	return id;
}

/* The places are the thread's own live stack: each one that matches proves the next to exist. */
__attribute__((no_sanitize("address", "thread"))) static bool
remembers(const struct memory *memory, const struct stacks *stacks, void *frame)
{
	if (memory->serial != stacks->serial || memory->frame != frame)
		return false;
	for (uint32_t i = 0; i < memory->count; i++)
		if (*memory->place[i] != memory->pc[i])
			return false;
	return true;
}

static void
remember(struct memory *memory, const struct stacks *stacks, const struct walk *walk, uint32_t id)
{
	if (!walk->placed || id == STACK_NONE || walk->count == 0 || walk->count > LOCAL_FRAMES ||
	    (char *)walk->place[0] != walk->frame + sizeof(void *))
		return;
	*memory = (struct memory){
		.serial = stacks->serial, .frame = walk->frame, .id = id, .count = walk->count
	};
	memcpy(memory->pc, walk->pc, walk->count * sizeof(void *));
	memcpy(memory->place, walk->place, walk->count * sizeof(void **));
}

uint32_t
stacks_capture(struct stacks *stacks, void *frame)
{
	if (stacks->depth == 0)
		return STACK_NONE;
	void *caller = ((void **)frame)[1];
	uint64_t key = ((uint64_t)(uintptr_t)frame >> 4) ^ (uint64_t)(uintptr_t)caller;
	struct local *local = PLACE_BELOW_SP ? local_get() : NULL;
	struct memory *memory = local == NULL ? NULL : &local->memories[(key ^ (key >> 7)) % LOCAL_MEMORIES];
	if (memory != NULL && remembers(memory, stacks, frame))
		return memory->id;

	struct walk walk = { .frame = frame, .most = stacks->depth, .placed = true };
	_Unwind_Backtrace(step, &walk);
	if (walk.count == 0)
		return STACK_NONE;
	uint32_t id = intern(stacks, &walk);
	if (memory != NULL)
		remember(memory, stacks, &walk, id);
	return id;
}

uint32_t
stacks_frames(struct stacks *stacks, uint32_t id, void *const **frames)
{
	if (id == STACK_NONE || stacks->depth == 0)
		return 0;
	struct stack *stack = atomic_load_explicit(&stacks->entries[id], memory_order_acquire);
	*frames = stack->frame;
	return stack->count;
}
