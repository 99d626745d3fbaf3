/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checker found.  Findings are kept in a table of their own with its own lock, which
 * is only tried: a signal handler may come here while its thread is inside.
 */
#include "tests/fake/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FINDINGS_KEPT 1024
#define TEXT_SIZE 160

static struct {
	enum fake_finding kind;
	atomic_bool ready;
	char text[TEXT_SIZE];
} kept[FINDINGS_KEPT];
static atomic_size_t total;
static atomic_size_t by_kind[FAKE_FINDING_KINDS];

void
finding(enum fake_finding kind, const char *format, ...)
{
	size_t i = atomic_fetch_add(&total, 1);
	va_list args;

	atomic_fetch_add(&by_kind[kind], 1);
	if (i >= FINDINGS_KEPT)
		return;
	kept[i].kind = kind;
	va_start(args, format);
	vsnprintf(kept[i].text, TEXT_SIZE, format, args);
	va_end(args);
	atomic_store(&kept[i].ready, true);
}

void
findings_restart(void)
{
	size_t n = atomic_load(&total);

	for (size_t i = 0; i < n && i < FINDINGS_KEPT; i++)
		atomic_store(&kept[i].ready, false);
	for (int kind = 0; kind < FAKE_FINDING_KINDS; kind++)
		atomic_store(&by_kind[kind], 0);
	atomic_store(&total, 0);
}

EXPORT size_t
fake_cuda_findings(void)
{
	return atomic_load(&total);
}

EXPORT size_t
fake_cuda_findings_of(enum fake_finding kind)
{
	return (unsigned)kind < FAKE_FINDING_KINDS ? atomic_load(&by_kind[kind]) : 0;
}

EXPORT bool
fake_cuda_finding(size_t i, enum fake_finding *kind, char *text, size_t size)
{
	if (i >= atomic_load(&total) || i >= FINDINGS_KEPT || !atomic_load(&kept[i].ready))
		return false;
	if (kind != NULL)
		*kind = kept[i].kind;
	if (text != NULL && size != 0)
		snprintf(text, size, "%s: %s", fake_cuda_finding_name(kept[i].kind), kept[i].text);
	return true;
}

EXPORT void
fake_cuda_findings_clear(void)
{
	findings_restart();
}

EXPORT const char *
fake_cuda_finding_name(enum fake_finding kind)
{
	switch (kind) {
#define X(name, text)           \
	case FAKE_FOUND_##name: \
		return text;
		FAKE_FINDINGS(X)
#undef X
	case FAKE_FINDING_KINDS:
		break;
	}
	return "unknown";
}

/* ---- what is alive ------------------------------------------------------------------- */

static const char *const object_names[FAKE_OBJECTS] = {
	[FAKE_STREAMS] = "stream",
	[FAKE_EVENTS] = "event",
	[FAKE_POOLS] = "pool",
	[FAKE_MODULES] = "module",
	[FAKE_GRAPHS] = "graph",
	[FAKE_CONTEXTS] = "retained context",
	[FAKE_ALLOCATIONS] = "allocation",
	[FAKE_HOST_ALLOCATIONS] = "host allocation",
	[FAKE_RESERVATIONS] = "address reservation",
	[FAKE_HANDLES] = "memory handle",
	[FAKE_MAPPINGS] = "mapping",
};

static uint64_t
live_handles(enum kind kind)
{
	uint64_t n = 0;

	for (struct handle *h = handle_first(kind); h != NULL; h = h->next)
		n += h->live;
	return n;
}

static uint64_t
live_memory(struct node *node, bool host)
{
	if (node == NULL)
		return 0;
	const struct memory *m = TREE_OF(node, const struct memory);
	bool is_host = m->kind == MEMORY_HOST;
	bool counts = !m->freed && is_host == host && m->kind != MEMORY_MAPPED && m->kind != MEMORY_GRAPH;
	return counts + live_memory(node->left, host) + live_memory(node->right, host);
}

static uint64_t
live_pools(void)
{
	uint64_t n = live_handles(KIND_POOL);

	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		n -= world.devices[i].default_pool != NULL;
	return n;
}

static uint64_t
live_contexts(void)
{
	uint64_t n = 0;

	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		n += world.devices[i].primary != NULL ? world.devices[i].primary->refs : 0;
	return n;
}

static uint64_t
count_live(enum fake_object object)
{
	switch (object) {
	case FAKE_STREAMS:
		return live_handles(KIND_STREAM);
	case FAKE_EVENTS:
		return live_handles(KIND_EVENT);
	case FAKE_POOLS:
		return live_pools();
	case FAKE_MODULES:
		return live_handles(KIND_MODULE);
	case FAKE_GRAPHS:
		return live_handles(KIND_GRAPH) + live_handles(KIND_GRAPH_EXEC);
	case FAKE_CONTEXTS:
		return live_contexts();
	case FAKE_ALLOCATIONS:
		return live_memory(world.memory, false);
	case FAKE_HOST_ALLOCATIONS:
		return live_memory(world.memory, true);
	case FAKE_RESERVATIONS:
	case FAKE_HANDLES:
	case FAKE_MAPPINGS:
		return vmm_live(object);
	case FAKE_OBJECTS:
		break;
	}
	return 0;
}

uint64_t
leaks_note(void)
{
	uint64_t sum = 0;

	for (enum fake_object object = 0; object < FAKE_OBJECTS; object++) {
		uint64_t n = object == FAKE_CONTEXTS ? 0 : count_live(object);
		for (uint64_t i = 0; i < n; i++)
			finding(FAKE_FOUND_LEAK, "%s (one of %llu)", object_names[object],
				(unsigned long long)n);
		sum += n;
	}
	return sum;
}

EXPORT uint64_t
fake_cuda_live(enum fake_object object)
{
	control_enter();
	uint64_t n = count_live(object);
	control_leave();
	return n;
}

EXPORT size_t
fake_cuda_leaks(void)
{
	control_enter();
	size_t n = leaks_note();
	control_leave();
	return n;
}

/* ---- at exit --------------------------------------------------------------------------- */

static void
write_report(const char *where)
{
	FILE *file = strcmp(where, "stderr") == 0 ? stderr : fopen(where, "a");
	char text[TEXT_SIZE + 80];

	if (file == NULL)
		return;
	for (size_t i = 0; i < FINDINGS_KEPT && fake_cuda_finding(i, NULL, text, sizeof text); i++)
		fprintf(file, "fake-cuda: %s\n", text);
	fprintf(file, "fake-cuda: %zu findings\n", fake_cuda_findings());
	if (file != stderr)
		fclose(file);
}

void
findings_at_exit(void)
{
	const char *where = getenv("FAKE_CUDA_REPORT");
	const char *status = getenv("FAKE_CUDA_EXIT");

	if (where == NULL && status == NULL)
		return;
	fake_cuda_leaks();
	if (where != NULL)
		write_report(where);
	if (status != NULL && fake_cuda_findings() != 0) {
		fflush(NULL);
		_exit(atoi(status));
	}
}
