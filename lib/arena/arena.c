/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/arena/arena.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

/* Interim: libc memory, until the huge-page arena lands. */
struct chunk { struct chunk *next, *prev; void *raw; };
struct soma__arena { struct chunk head; };
static _Thread_local unsigned long nth, count;

enum soma_status
soma__arena_create(struct soma__arena **arena)
{
	struct soma__arena *a = calloc(1, sizeof *a);
	if (a == NULL)
		return soma__fail(OUT_OF_HOST_MEMORY, "no memory for an arena");
	a->head.next = a->head.prev = &a->head;
	*arena = a;
	return SOMA_STATUS_OK;
}

void
soma__arena_destroy(struct soma__arena *arena)
{
	if (arena == NULL)
		return;
	while (arena->head.next != &arena->head) {
		struct chunk *c = arena->head.next;
		arena->head.next = c->next;
		free(c->raw);
	}
	free(arena);
}

void *
soma__arena_alloc(struct soma__arena *arena, size_t size, size_t alignment)
{
	count++;
	if (nth != 0 && --nth == 0) {
		soma__fail(OUT_OF_HOST_MEMORY, "no memory");
		return NULL;
	}
	if (alignment < 64)
		alignment = 64;
	char *raw = aligned_alloc(alignment, (size + 2 * alignment - 1) & ~(alignment - 1));
	if (raw == NULL)
		return NULL;
	char *p = raw + alignment;
	struct chunk *c = (struct chunk *)(p - sizeof *c);
	c->raw = raw;
	c->next = arena->head.next;
	c->prev = &arena->head;
	c->next->prev = c;
	arena->head.next = c;
	return p;
}

void *
soma__arena_calloc(struct soma__arena *arena, size_t size, size_t alignment)
{
	void *p = soma__arena_alloc(arena, size, alignment);
	if (p != NULL)
		memset(p, 0, size);
	return p;
}

void
soma__arena_free(struct soma__arena *arena, void *memory, size_t size)
{
	(void)arena;
	(void)size;
	if (memory == NULL)
		return;
	struct chunk *c = (struct chunk *)((char *)memory - sizeof *c);
	c->prev->next = c->next;
	c->next->prev = c->prev;
	free(c->raw);
}

enum soma_status
soma__arena_info(const struct soma__arena *arena, struct soma_memory_info *info)
{
	(void)arena;
	*info = (struct soma_memory_info){ .page_kind = "plain" };
	return SOMA_STATUS_OK;
}

void
soma__arena_set_huge_pages(bool on)
{
	(void)on;
}

unsigned long
soma__arena_fail_nth(unsigned long n)
{
	unsigned long made = count;
	count = 0;
	nth = n;
	return made;
}
