/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resource stack that a replay allocates from: a backend opened for it, and a budget.
 * Shared by all threads; constant once it is open.
 */
#ifndef SOMA_TOOLS_LIVE_STACK_H
#define SOMA_TOOLS_LIVE_STACK_H

#include <stdbool.h>

#include <soma/budget.h>

#include "lib/plugin/backend.h"

struct stack {
	struct soma_resource *terminal, *budget; /* budget: NULL for none */
	struct soma_resource *top;
	struct soma__backend *backend;
	struct soma_backend_info info; /* when it was opened */
	char name[128];                /* "guard:host", of what `auto` stands for, too */
	bool guarded;
	bool logical; /* streams run only when told */
	bool tracks;  /* uses on other streams can be declared */
};

/* A guard reports and goes on.  budget 0: none.  The text of a failure is soma_error_last()'s. */
enum soma_status stack_open(struct stack *stack, const char *backend, const char *search, uint64_t budget);

/* Nothing is queued or in use any more; what the guard finds now, it still says. */
void stack_close(struct stack *stack);

/* Completes the frees that are over, and has a guard look at what it keeps and let it go. */
void stack_settle(struct stack *stack);

/* Zero without a guard. */
struct soma_backend_guard_stats stack_guard_stats(const struct stack *stack);

/* The first and the last byte of a block become `mark`: at once where the host reaches them, else
 * in the stream's order, where the backend fills. */
enum soma_status stack_touch(const struct stack *stack, const struct soma_block *block, uint8_t mark);

/* Whether they still are; true where the host cannot look. */
bool stack_is_marked(const struct stack *stack, const struct soma_block *block, uint8_t mark);

#endif
