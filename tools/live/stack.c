/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing, and the bytes of blocks.  No locks.
 */
#include "tools/live/stack.h"

#include <string.h>

#include "lib/resource/open.h"

static bool
names_guard(const char *backend)
{
	return strncmp(backend, "guard:", 6) == 0 || strstr(backend, ":guard:") != NULL;
}

static bool
can(const struct stack *stack, uint64_t capability)
{
	return (stack->backend->capabilities & capability) != 0;
}

static enum soma_status
add_budget(struct stack *stack, uint64_t limit)
{
	enum soma_status status = SOMA_STATUS_OK;

	stack->top = stack->terminal;
	if (limit > 0) {
		status = soma_budget_create(stack->terminal, limit, &stack->budget);
		if (status == SOMA_STATUS_OK)
			stack->top = stack->budget;
	}
	if (status == SOMA_STATUS_OK)
		status = soma__backend_query(stack->backend, &stack->info);
	if (status != SOMA_STATUS_OK)
		stack_close(stack);
	return status;
}

enum soma_status
stack_open(struct stack *stack, const char *backend, const char *search, uint64_t budget)
{
	static const struct soma_backend_option report = { "guard.on_error", "report" };
	const struct soma__backend_config config = {
		.name = backend,
		.search = search,
		.option_count = names_guard(backend),
		.options = &report,
	};

	*stack = (struct stack){ 0 };
	enum soma_status status = soma__resource_open(&config, &stack->terminal);
	if (status != SOMA_STATUS_OK)
		return status;
	stack->backend = soma__resource_backend(stack->terminal);
	soma__backend_name(stack->backend, stack->name, sizeof stack->name);
	stack->guarded = can(stack, SOMA_BACKEND_GUARD);
	stack->logical = can(stack, SOMA_BACKEND_STEPS);
	stack->tracks = soma_resource_supports_use_tracking(stack->terminal);
	return add_budget(stack, budget);
}

void
stack_close(struct stack *stack)
{
	soma_resource_release(stack->budget);
	soma_resource_release(stack->terminal);
	stack->terminal = stack->budget = NULL;
}

void
stack_settle(struct stack *stack)
{
	const struct soma__backend *backend = stack->backend;
	uint64_t damaged;

	soma_resource_reap_pending(stack->top);
	if (!stack->guarded)
		return;
	backend->ops->guard_settle(backend->self);
	backend->ops->guard_scan(backend->self, &damaged);
	backend->ops->guard_drain(backend->self, 0);
}

struct soma_backend_guard_stats
stack_guard_stats(const struct stack *stack)
{
	struct soma_backend_guard_stats stats = { .size = sizeof stats };

	if (stack->guarded)
		stack->backend->ops->guard_stats(stack->backend->self, &stats);
	return stats;
}

enum soma_status
stack_touch(const struct stack *stack, const struct soma_block *block, uint8_t mark)
{
	const struct soma__backend *backend = stack->backend;
	uint64_t last = block->ptr + block->bytes - 1;

	if (can(stack, SOMA_BACKEND_HOST_ACCESSIBLE)) {
		*(volatile uint8_t *)(uintptr_t)block->ptr = mark;
		*(volatile uint8_t *)(uintptr_t)last = mark;
		return SOMA_STATUS_OK;
	}
	if (!can(stack, SOMA_BACKEND_FILLS))
		return SOMA_STATUS_OK;
	struct soma_backend_stream *stream = soma__resource_stream(stack->terminal, block->stream);
	enum soma_status status = backend->ops->fill8(backend->self, block->ptr, mark, 1, stream);
	return status == SOMA_STATUS_OK ? backend->ops->fill8(backend->self, last, mark, 1, stream) : status;
}

bool
stack_is_marked(const struct stack *stack, const struct soma_block *block, uint8_t mark)
{
	if (!can(stack, SOMA_BACKEND_HOST_ACCESSIBLE))
		return true;
	return *(volatile uint8_t *)(uintptr_t)block->ptr == mark &&
	       *(volatile uint8_t *)(uintptr_t)(block->ptr + block->bytes - 1) == mark;
}
