/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: records that are never given back to malloc, so that any pointer can be told to be
 * a live handle, a dead one or none.  A dead one's record serves the next object of its
 * kind, so its value comes back, as with the driver.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>

static struct handle **table; /* open addressing; half full at most */
static size_t slots, count;
static struct handle *all[KINDS], *spare[KINDS];

static const char *const kind_names[KINDS] = { "context", "stream",   "event", "pool",
					       "module",  "function", "graph", "executable graph" };

static size_t
slot_of(const void *p)
{
	return (size_t)(((uintptr_t)p >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (slots - 1);
}

static void
table_put(struct handle *handle)
{
	size_t i = slot_of(handle);

	while (table[i] != NULL)
		i = (i + 1) & (slots - 1);
	table[i] = handle;
}

static void
table_grow(void)
{
	free(table);
	slots = slots == 0 ? 256 : slots * 2;
	table = calloc(slots, sizeof *table);
	if (table == NULL)
		abort();
	for (int kind = 0; kind < KINDS; kind++)
		for (struct handle *h = all[kind]; h != NULL; h = h->next)
			table_put(h);
}

static struct handle *
table_find(const void *p)
{
	if (slots == 0)
		return NULL;
	for (size_t i = slot_of(p); table[i] != NULL; i = (i + 1) & (slots - 1))
		if ((const void *)table[i] == p)
			return table[i];
	return NULL;
}

void *
handle_new(enum kind kind, size_t size, struct fake_context *context)
{
	struct handle *h = spare[kind];
	struct handle *next;

	if (h != NULL) {
		spare[kind] = h->spare;
		next = h->next;
		memset(h, 0, size);
		h->next = next;
	} else {
		h = calloc(1, size);
		if (h == NULL)
			abort();
		if (2 * ++count > slots)
			table_grow();
		table_put(h);
		h->next = all[kind];
		all[kind] = h;
	}
	h->kind = kind;
	h->live = true;
	h->context = context;
	return h;
}

void
handle_drop(void *handle)
{
	struct handle *h = handle;

	h->live = false;
	if (world.recycle) {
		h->spare = spare[h->kind];
		spare[h->kind] = h;
	}
}

void *
handle_find(const void *handle, enum kind kind)
{
	struct handle *h = table_find(handle);

	if (h != NULL && h->kind == kind && h->live)
		return h;
	finding(FAKE_FOUND_STALE_HANDLE, "%s %p %s", kind_names[kind], handle,
		h == NULL         ? "never was a handle"
		: h->kind != kind ? "is a handle of another kind"
				  : "was destroyed");
	return NULL;
}

struct handle *
handle_first(enum kind kind)
{
	return all[kind];
}

/* What the records own was given back before.  None of the old handles is known afterwards. */
void
handles_restart(void)
{
	for (int kind = 0; kind < KINDS; kind++) {
		while (all[kind] != NULL) {
			struct handle *h = all[kind];
			all[kind] = h->next;
			free(h);
		}
		spare[kind] = NULL;
	}
	free(table);
	table = NULL;
	slots = count = 0;
}
