/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation does when its stream gets there, and whether the memory it touches is
 * there then.
 */
#include "tests/fake/state.h"

#include <string.h>

static void
complain(enum fake_finding kind, const struct op *op, const struct use *use)
{
	finding(kind, "%s of 0x%llx on stream %llu", op->what, (unsigned long long)use->address,
		(unsigned long long)op->lane->id);
}

/* False: the device would fault. */
static bool
check_use(const struct op *op, const struct use *use, const struct lane *lane)
{
	const struct memory *m = use->memory;

	if (m != NULL && !m->made_done)
		complain(FAKE_FOUND_USE_BEFORE_ALLOC, op, use);
	if (m != NULL && m->freed_done)
		complain(FAKE_FOUND_USE_AFTER_FREE, op, use);
	if (m != NULL && !memory_accessible(m, lane, use->write)) {
		complain(FAKE_FOUND_NO_ACCESS, op, use);
		return false;
	}
	return region_holds(use->address, use->bytes);
}

static bool
check_uses(const struct op *op, const struct lane *lane)
{
	bool there = true;

	for (unsigned i = 0; i < op->use_count; i++)
		there = check_use(op, &op->uses[i], lane) && there;
	if (!there)
		context_fail(lane->context, CUDA_ERROR_ILLEGAL_ADDRESS, true);
	return there;
}

static void
fill(const struct op *op)
{
	unsigned char *to = (unsigned char *)(uintptr_t)op->to;

	if (op->width == 1) {
		memset(to, (int)op->value, op->bytes);
		return;
	}
	for (uint64_t i = 0; i < op->bytes; i += 4)
		memcpy(to + i, &op->value, 4);
}

static void
copy(const struct op *op)
{
	const void *from = op->data != NULL ? op->data : (const void *)(uintptr_t)op->from;

	memmove((void *)(uintptr_t)op->to, from, op->bytes);
}

/* The one place where the mutex is let go while an operation runs. */
static void
call_host(const struct op *op)
{
	struct thread *self = thread_self();

	pthread_mutex_unlock(&world.mutex);
	self->inside = false;
	self->in_callback = true;
	op->function(op->data);
	self->in_callback = false;
	self->inside = true;
	pthread_mutex_lock(&world.mutex);
}

static void run_on(struct op *op, struct lane *lane);

/* The operations of a graph, in the order of their capture. */
static void
run_graph(struct graph *graph, struct lane *lane)
{
	for (struct op *op = graph->ops; op != NULL; op = op->next) {
		op->lane = lane;
		run_on(op, lane);
	}
}

static void
do_effect(struct op *op, struct lane *lane)
{
	if (lane->context->sticky != CUDA_SUCCESS || !check_uses(op, lane))
		return;
	switch (op->kind) {
	case OP_FILL:
		fill(op);
		break;
	case OP_COPY:
		copy(op);
		break;
	case OP_HOST:
		call_host(op);
		break;
	case OP_KERNEL:
		op->kernel(op->params, op->blocks, op->threads);
		break;
	case OP_GRAPH:
		run_graph(op->graph, lane);
		break;
	case OP_ALLOC:
	case OP_FREE:
	case OP_RECORD:
	case OP_WAIT:
		break;
	}
}

/* Blocks come and go even when the context is beyond use. */
static void
run_on(struct op *op, struct lane *lane)
{
	if (op->kind == OP_ALLOC) {
		op->memory->made_done = true;
		if (op->memory->kind == MEMORY_GRAPH)
			op->memory->freed_done = false; /* it was launched before */
	} else if (op->kind == OP_FREE) {
		op->memory->freed_done = true;
		if (op->memory->kind == MEMORY_POOL) {
			if (!FAKE_USED_FALLS_AT_CALL)
				pool_uncount(op->memory->pool, op->memory->bytes);
			pool_freed(op->memory->pool);
			op->memory->pool = NULL;
		}
		if (op->memory->kind == MEMORY_IMPORT)
			import_free(op->memory);
	} else {
		do_effect(op, lane);
	}
}

void
op_run(struct op *op)
{
	struct fake_context *context = op->lane->context;

	run_on(op, op->lane);
	if (context->fail_in != 0 && --context->fail_in == 0)
		context_fail(context, context->fail_code, context->fail_sticky);
}
