/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in mappings of their own; see mapped.h.  Slots are changed under the guard's lock. */
#include "backends/guard/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/guard/guard.h"

#define RANGE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define SAMPLED_BELOW ((uint64_t)2 << 20)

static enum soma_status
open_map(struct soma_backend *g)
{
	const char *path = g->options.map;

	g->mapped.map = -1;
	if (path[0] == '\0')
		return SOMA_STATUS_OK;
	g->mapped.map = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (g->mapped.map >= 0)
		return SOMA_STATUS_OK;
	return guard_fail(g->host, SOMA_STATUS_IO, "guard.map: %.128s: %s", path, strerror(errno));
}

/* One write, so that lines of several threads do not mix.  A map that cannot be written stops nothing. */
static void
tell_map(const struct soma_backend *g, const char *what, const struct block *block)
{
	char line[256];
	int length;

	if (g->mapped.map < 0)
		return;
	length = snprintf(line, sizeof line,
			  "%s block 0x%" PRIx64 " size %" PRIu64 " gen %" PRIu64 " mapped 0x%" PRIx64
			  "+0x%" PRIx64 " range 0x%" PRIx64 "+0x%" PRIx64 "\n",
			  what, block->ptr, block->size, block->generation, block->outer, block->outer_size,
			  block->range, block->range_size);
	if (write(g->mapped.map, line, (size_t)length) < 0)
		g->host->log(g->host->context, SOMA_BACKEND_LOG_WARNING,
			     "guard.map: a line could not be written");
}

static bool
has_spans(const struct soma_backend *g)
{
	return (g->info.capabilities & SOMA_BACKEND_SPANS) != 0;
}

enum soma_status
mapped_open(struct soma_backend *g)
{
	struct mapped *mapped = &g->mapped;

	if (g->options.mode != GUARD_FULL || (!has_spans(g) && !g->direct))
		return SOMA_STATUS_OK;
	mapped->page = has_spans(g) ? g->info.span_granularity : (uint64_t)sysconf(_SC_PAGESIZE);
	mapped->vacant = FAULT_NO_SLOT;
	enum soma_status status = open_map(g);
	if (status != SOMA_STATUS_OK)
		return status;
	if (g->direct && !fault_enter(g))
		return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY,
				  "guard: no room for the handler of faults");
	mapped->on = true;
	return SOMA_STATUS_OK;
}

void
mapped_close(struct soma_backend *g)
{
	const struct soma_backend_host *host = g->host;

	if (g->mapped.on && g->direct)
		fault_leave(g);
	if (g->mapped.page != 0 && g->mapped.map >= 0)
		close(g->mapped.map);
	for (uint32_t i = 0; i < FAULT_CHUNKS && g->mapped.chunks[i] != NULL; i++)
		host->free(host->context, g->mapped.chunks[i], FAULT_SLOTS * sizeof(struct fault_slot));
	memset(&g->mapped, 0, sizeof g->mapped);
}

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

bool
mapped_wants(struct soma_backend *g, uint64_t size)
{
	const struct guard_options *o = &g->options;

	if (!g->mapped.on || size > UINT64_MAX / 2)
		return false;
	uint64_t turn = atomic_fetch_add_explicit(&g->mapped.turn, 1, memory_order_relaxed);
	if (o->vmm_bytes != 0 && atomic_load(&g->mapped.bytes) + size > o->vmm_bytes)
		return false;
	if (size >= SAMPLED_BELOW)
		return true;
	return o->vmm_sample != 0 && mix(turn + o->vmm_seed) % o->vmm_sample == 0;
}

/* ---- address ranges ---------------------------------------------------------------- */

static bool
range_reserve(struct soma_backend *g, struct block *block)
{
	if (has_spans(g))
		return g->ops->span_reserve(g->inner, block->range_size, g->mapped.page, &block->range) ==
		       SOMA_STATUS_OK;
	void *at = mmap(NULL, block->range_size, PROT_NONE, RANGE_FLAGS, -1, 0);
	if (at == MAP_FAILED)
		return false;
	block->range = (uint64_t)(uintptr_t)at;
	return true;
}

static bool
range_map(struct soma_backend *g, const struct block *block)
{
	if (has_spans(g))
		return g->ops->span_map(g->inner, block->outer, block->outer_size) == SOMA_STATUS_OK;
	return mprotect((void *)(uintptr_t)block->outer, block->outer_size, PROT_READ | PROT_WRITE) == 0;
}

bool
mapped_vacate(struct soma_backend *g, const struct block *block)
{
	bool done;

	if (has_spans(g))
		done = g->ops->span_unmap(g->inner, block->outer, block->outer_size) == SOMA_STATUS_OK;
	else
		done = mmap((void *)(uintptr_t)block->outer, block->outer_size, PROT_NONE,
			    RANGE_FLAGS | MAP_FIXED, -1, 0) != MAP_FAILED;
	if (done)
		tell_map(g, "unmapped", block);
	if (done)
		atomic_fetch_sub_explicit(&g->mapped.bytes, block->outer_size, memory_order_relaxed);
	return done;
}

bool
mapped_release(struct soma_backend *g, const struct block *block)
{
	if (has_spans(g))
		return g->ops->span_release(g->inner, block->range, block->range_size) == SOMA_STATUS_OK;
	return munmap((void *)(uintptr_t)block->range, block->range_size) == 0;
}

bool
mapped_alloc(struct soma_backend *g, struct block *block, uint64_t alignment)
{
	uint64_t page = g->mapped.page, step = alignment > GUARD_ALIGNMENT ? alignment : GUARD_ALIGNMENT;
	bool right = atomic_load_explicit(&g->mapped.turn, memory_order_relaxed) % 2 != 0;

	if (step > page)
		return false;
	block->outer_size = (block->size + page - 1) / page * page;
	block->range_size = block->outer_size + 2 * page;
	if (!range_reserve(g, block)) {
		block->range = block->range_size = 0;
		return false;
	}
	block->outer = block->front = block->range + page;
	block->ptr = block->outer + (right ? (block->outer_size - block->size) & ~(step - 1) : 0);
	tell_map(g, "mapped", block);
	if (!range_map(g, block)) {
		tell_map(g, "unmapped", block);
		mapped_release(g, block);
		block->range = block->range_size = 0;
		return false;
	}
	block->resident = true;
	atomic_fetch_add_explicit(&g->mapped.bytes, block->outer_size, memory_order_relaxed);
	return true;
}

/* ---- what the signal handler sees ------------------------------------------------------ */

static struct fault_slot *
slot_of(struct soma_backend *g, uint32_t number)
{
	return &g->mapped.chunks[number / FAULT_SLOTS][number % FAULT_SLOTS];
}

/* A slot that was never used; without memory, or with all in use, the fault is not explained. */
static uint32_t
new_slot(struct soma_backend *g)
{
	uint32_t number = atomic_load(&g->mapped.slot_count), chunk = number / FAULT_SLOTS;
	size_t bytes = FAULT_SLOTS * sizeof(struct fault_slot);

	if (chunk == FAULT_CHUNKS)
		return FAULT_NO_SLOT;
	if (g->mapped.chunks[chunk] == NULL) {
		void *memory = g->host->alloc(g->host->context, bytes, 64);
		if (memory == NULL)
			return FAULT_NO_SLOT;
		memset(memory, 0, bytes);
		atomic_store(&g->mapped.chunks[chunk], memory);
	}
	atomic_store(&g->mapped.slot_count, number + 1);
	return number;
}

bool
mapped_slot_take(struct soma_backend *g, struct block *block)
{
	uint32_t number = g->mapped.vacant;

	block->fault_slot = FAULT_NO_SLOT;
	if (!g->direct)
		return true;
	if (number != FAULT_NO_SLOT)
		g->mapped.vacant = (uint32_t)atomic_load(&slot_of(g, number)->ptr);
	else
		number = new_slot(g);
	block->fault_slot = number;
	if (number == FAULT_NO_SLOT)
		return false;
	struct fault_slot *slot = slot_of(g, number);
	atomic_store(&slot->ptr, block->ptr);
	atomic_store(&slot->size, block->size);
	atomic_store(&slot->generation, block->generation);
	atomic_store(&slot->alloc_stack, block->uses.alloc.stack);
	atomic_store(&slot->free_stack, STACK_NONE);
	atomic_store(&slot->freed, false);
	atomic_store(&slot->range_size, block->range_size);
	atomic_store(&slot->range, block->range);
	return true;
}

void
mapped_slot_freed(struct soma_backend *g, const struct block *block)
{
	if (block->fault_slot == FAULT_NO_SLOT)
		return;
	struct fault_slot *slot = slot_of(g, block->fault_slot);
	atomic_store(&slot->free_stack, block->freed.stack);
	atomic_store(&slot->freed, true);
}

void
mapped_slot_give(struct soma_backend *g, const struct block *block)
{
	if (block->fault_slot == FAULT_NO_SLOT)
		return;
	struct fault_slot *slot = slot_of(g, block->fault_slot);
	atomic_store(&slot->range, 0);
	atomic_store(&slot->ptr, g->mapped.vacant);
	g->mapped.vacant = block->fault_slot;
}
