/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queueing operations: what they wait for, what order they add, and whether order was given
 * where it is needed.  Running them is run.c.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>

static struct op *spare;

struct op *
op_new(enum op_kind kind, const char *what)
{
	struct op *op = spare;

	if (op != NULL) {
		spare = op->next;
		/* One by one: the parameters are most of it, and a launch sets those it has. */
		op->dep_count = op->use_count = 0;
		op->to = op->from = op->bytes = op->pos = 0;
		op->value = op->width = op->blocks = op->threads = 0;
		op->lane = NULL;
		op->next = NULL;
		op->memory = NULL;
		op->graph = NULL;
		op->function = NULL;
		op->data = NULL;
		op->kernel = NULL;
	} else {
		op = calloc(1, sizeof *op);
		if (op == NULL)
			abort();
	}
	op->kind = kind;
	op->what = what;
	return op;
}

void
op_free(struct op *op)
{
	for (unsigned i = 0; i < op->use_count; i++)
		if (op->uses[i].memory != NULL)
			memory_unref(op->uses[i].memory);
	if (op->memory != NULL)
		memory_unref(op->memory);
	if (op->graph != NULL)
		graph_unref(op->graph);
	if (op->kind != OP_HOST)
		free(op->data);
	op->next = spare;
	spare = op;
}

void
ops_restart(void)
{
	while (spare != NULL) {
		struct op *op = spare;
		spare = op->next;
		free(op->deps);
		free(op->uses);
		free(op);
	}
}

void
op_wait_for(struct op *op, struct lane *lane, uint64_t pos)
{
	if (lane->executed >= pos)
		return;
	if (op->dep_count == op->dep_room) {
		op->dep_room = op->dep_room == 0 ? 2 : op->dep_room * 2;
		op->deps = realloc(op->deps, op->dep_room * sizeof *op->deps);
		if (op->deps == NULL)
			abort();
	}
	op->deps[op->dep_count++] = (struct dep){ lane, pos };
}

static void
add_use(struct op *op, struct use use)
{
	if (op->use_count == op->use_room) {
		op->use_room = op->use_room == 0 ? 2 : op->use_room * 2;
		op->uses = realloc(op->uses, op->use_room * sizeof *op->uses);
		if (op->uses == NULL)
			abort();
	}
	if (use.memory != NULL)
		memory_ref(use.memory);
	op->uses[op->use_count++] = use;
}

void
op_use_wild(struct op *op, uint64_t address, uint64_t bytes)
{
	add_use(op, (struct use){ NULL, address, bytes, true });
}

/* The memory that the access begins in, if it is there to be used. */
static struct memory *
memory_to_use(const struct op *op, const struct lane *lane, uint64_t address)
{
	struct memory *m = memory_at(address);

	if (m != NULL && !m->freed)
		return m;
	if (m != NULL || region_holds(address, 1))
		finding(FAKE_FOUND_STALE_MEMORY, "%s of 0x%llx on stream %llu, %s", op->what,
			(unsigned long long)address, (unsigned long long)lane->id,
			m != NULL ? "freed before" : "which is no allocation");
	return NULL;
}

/* A mapping may be passed where another one follows. */
static uint64_t
part_within(const struct memory *m, uint64_t address, uint64_t bytes)
{
	uint64_t rest = m->address + m->bytes - address;
	const struct memory *next = m->kind == MEMORY_MAPPED ? memory_live(m->address + m->bytes) : NULL;

	return next != NULL && next->kind == MEMORY_MAPPED && bytes > rest ? rest : bytes;
}

CUresult
op_use(struct op *op, struct lane *lane, uint64_t address, uint64_t bytes, bool write)
{
	while (bytes != 0) {
		struct memory *m = memory_to_use(op, lane, address);
		uint64_t part = bytes;
		if (m == NULL && !region_holds(address, 1))
			return CUDA_ERROR_INVALID_VALUE;
		if (m != NULL)
			part = part_within(m, address, bytes);
		if (m != NULL && part > m->address + m->bytes - address)
			finding(FAKE_FOUND_OUT_OF_BOUNDS,
				"%s of 0x%llx + %llu passes the end of 0x%llx + %llu", op->what,
				(unsigned long long)address, (unsigned long long)bytes,
				(unsigned long long)m->address, (unsigned long long)m->bytes);
		add_use(op, (struct use){ m, address, part, write });
		address += part;
		bytes -= part;
	}
	return CUDA_SUCCESS;
}

/* ---- order ------------------------------------------------------------------------------- */

static bool
is_after(const struct lane *lane, struct dep dep)
{
	return dep.lane == NULL || dep.lane == lane || dep.lane->known >= dep.pos ||
	       lane_clock(lane, dep.lane->index) >= dep.pos;
}

static void
note_use(struct memory *m, struct lane *lane)
{
	struct dep use = { lane, lane->submitted };

	for (unsigned i = 0; i < m->use_count; i++) {
		if (m->uses[i].lane == lane) {
			m->uses[i] = use;
			return;
		}
	}
	if (m->use_count == m->use_room) {
		m->use_room = m->use_room == 0 ? 2 : m->use_room * 2;
		m->uses = realloc(m->uses, m->use_room * sizeof *m->uses);
		if (m->uses == NULL)
			abort();
	}
	m->uses[m->use_count++] = use;
}

static void
check_use(const struct op *op, const struct memory *m)
{
	if (!is_after(op->lane, m->made))
		finding(FAKE_FOUND_UNORDERED_USE, "%s of 0x%llx on stream %llu, allocated on stream %llu",
			op->what, (unsigned long long)m->address, (unsigned long long)op->lane->id,
			(unsigned long long)m->made.lane->id);
}

static void
check_free(const struct op *op, const struct memory *m)
{
	struct dep missing = m->made;

	if (is_after(op->lane, m->made)) {
		unsigned i = 0;
		while (i < m->use_count && is_after(op->lane, m->uses[i]))
			i++;
		if (i == m->use_count)
			return;
		missing = m->uses[i];
	}
	finding(FAKE_FOUND_UNORDERED_FREE,
		"0x%llx freed on stream %llu, not after operation %llu of stream %llu",
		(unsigned long long)m->address, (unsigned long long)op->lane->id,
		(unsigned long long)missing.pos, (unsigned long long)missing.lane->id);
}

static void
check_order(struct op *op)
{
	if (op->kind == OP_FREE)
		check_free(op, op->memory);
	for (unsigned i = 0; i < op->use_count; i++) {
		struct memory *m = op->uses[i].memory;
		if (m == NULL)
			continue;
		check_use(op, m);
		note_use(m, op->lane);
	}
}

/* The other that implies an order with the lane: the legacy stream and the blocking ones of its
 * context wait for each other.  `other` NULL: the first. */
static struct lane *
next_implicit(const struct lane *lane, const struct lane *other)
{
	if (!lane->legacy)
		return other == NULL && lane->blocking ? lane->context->legacy : NULL;
	struct lane *l = other == NULL ? world.lanes : other->next;
	while (l != NULL && (l->context != lane->context || !l->blocking))
		l = l->next;
	return l;
}

void
lane_join_implicit(struct lane *lane)
{
	for (struct lane *l = next_implicit(lane, NULL); l != NULL; l = next_implicit(lane, l))
		if (l->submitted != 0)
			lane_join(lane, l, l->submitted, l->clock, l->clocks);
}

static void
add_implicit(struct op *op, struct lane *lane)
{
	for (struct lane *l = next_implicit(lane, NULL); l != NULL; l = next_implicit(lane, l))
		op_wait_for(op, l, l->submitted);
	lane_join_implicit(lane);
}

CUresult
submit(struct lane *lane, struct op *op)
{
	CUresult result = CUDA_SUCCESS;

	if (lane->capture != NULL)
		return capture_add(lane->capture, (op->lane = lane, op));
	if (lane->legacy)
		result = capture_legacy(lane->context, false);
	if (result != CUDA_SUCCESS) {
		op_free(op);
		return result;
	}
	add_implicit(op, lane);
	op->lane = lane;
	op->pos = ++lane->submitted;
	if (op->kind == OP_ALLOC)
		op->memory->made = (struct dep){ lane, op->pos };
	check_order(op);
	op->next = NULL;
	*lane->tail = op;
	lane->tail = &op->next;
	work_added(lane);
	return CUDA_SUCCESS;
}
