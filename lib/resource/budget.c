/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget decorator.  It only says whom a request is charged to: the charging itself is done at the
 * terminal, so that a budget in the ledger sees what goes around its decorator, and a block releases what it
 * was charged, whoever frees it.
 */
#include "lib/base/error.h"
#include "lib/resource/terminal.h"

struct budget {
	struct soma_resource base;
	struct soma__account account;
};

/* The outermost tenant is the one that counts; it charges those under it. */
static enum soma_status
materialize(struct soma_resource *resource, struct soma__call *call)
{
	if (call->tenant == NULL)
		call->tenant = resource->tenant;
	return soma__resource_next(resource, call);
}

/* Under terminal->stack.  The accounts of closed budgets that come first are no longer charged; who walks the
 * chain just now goes on by their `parent`. */
static void
pass_closed(struct soma__terminal *terminal)
{
	struct soma__account *first = atomic_load(&terminal->ledger.domain);

	while (first != NULL && atomic_load(&first->unlimited))
		first = first->parent;
	atomic_store_explicit(&terminal->ledger.domain, first, memory_order_release);
}

/* What is charged to the account stays charged, and nobody else is refused for its sake. */
static void
close_budget(struct soma_resource *resource)
{
	struct soma__terminal *terminal = resource->terminal;

	soma__account_lift(&((struct budget *)resource)->account);
	pthread_mutex_lock(&terminal->stack);
	pass_closed(terminal);
	pthread_mutex_unlock(&terminal->stack);
}

static void
destroy_budget(struct soma_resource *resource)
{
	struct budget *budget = (struct budget *)resource;

	soma__account_fini(&budget->account);
	soma__arena_free(resource->terminal->arena, budget, sizeof *budget);
}

static const struct soma__resource_ops budget_ops = {
	.materialize = materialize,
	.close = close_budget,
	.destroy = destroy_budget,
};

/* Under terminal->stack, while nothing is charged to anybody: closed budgets leave the chain wherever they
 * stand in it, and can go. */
static void
drop_closed(struct soma__terminal *terminal)
{
	struct soma__account *account;

	pass_closed(terminal);
	for (account = atomic_load(&terminal->ledger.domain); account != NULL; account = account->parent)
		while (account->parent != NULL && atomic_load(&account->parent->unlimited))
			account->parent = account->parent->parent;
	for (struct soma_resource *r = terminal->decorators; r != NULL; r = r->sibling)
		if (r->charged && atomic_load(&((struct budget *)r)->account.unlimited))
			r->charged = false;
}

/* From now on every request of the stack is charged to it, too: but not what a reservation was promised before.  A free
 * that is still under way, and no longer outstanding, may look at the chain. */
static enum soma_status
install(struct budget *budget, struct soma__terminal *terminal)
{
	uint64_t outstanding, reservations;

	pthread_mutex_lock(&terminal->stack);
	outstanding = soma__ledger_outstanding(&terminal->ledger);
	reservations = atomic_load_explicit(&terminal->reservations, memory_order_relaxed);
	if (outstanding == 0 && reservations == 0) {
		if (soma__records_none(&terminal->ledger, NULL))
			drop_closed(terminal);
		budget->account.parent = atomic_load(&terminal->ledger.domain);
		budget->base.charged = true;
		atomic_store_explicit(&terminal->ledger.domain, &budget->account, memory_order_release);
	}
	pthread_mutex_unlock(&terminal->stack);
	soma__resource_sweep(terminal);
	if (outstanding == 0 && reservations == 0)
		return SOMA_STATUS_OK;
	return soma__fail(INVALID_VALUE,
			  "a budget can only be installed while nothing is outstanding (bytes: %" PRIu64
			  ", reservations: %" PRIu64 ")",
			  outstanding, reservations);
}

static enum soma_status
stack_budget(struct budget *budget, struct soma_resource *inner)
{
	struct soma_resource *base = &budget->base;
	enum soma_status status = SOMA_STATUS_OK;
	bool tenant = inner->budget != NULL;

	if (!tenant)
		status = install(budget, inner->terminal);
	if (status != SOMA_STATUS_OK)
		return status;
	soma__resource_init(base, &budget_ops, inner);
	base->budget = &budget->account;
	if (tenant)
		base->tenant = &budget->account;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_budget_create(struct soma_resource *inner, uint64_t limit, struct soma_resource **out)
{
	struct soma__arena *arena = inner->terminal->arena;
	struct budget *budget;
	enum soma_status status;

	if (limit == 0)
		return soma__fail(INVALID_VALUE, "a budget of 0 bytes: expected at least 1");
	budget = soma__arena_calloc(arena, sizeof *budget, 128);
	if (budget == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = soma__account_init(&budget->account, arena, limit, inner->tenant);
	if (status == SOMA_STATUS_OK) {
		status = stack_budget(budget, inner);
		if (status != SOMA_STATUS_OK)
			soma__account_fini(&budget->account);
	}
	if (status != SOMA_STATUS_OK) {
		soma__arena_free(arena, budget, sizeof *budget);
		return status;
	}
	*out = &budget->base;
	return SOMA_STATUS_OK;
}

uint64_t
soma_budget_limit(struct soma_resource *budget)
{
	return budget->budget != NULL ? budget->budget->limit : UINT64_MAX;
}

uint64_t
soma_budget_reserved(struct soma_resource *budget)
{
	return budget->budget != NULL ? soma__account_reserved(budget->budget) : 0;
}

uint64_t
soma_budget_remaining(struct soma_resource *budget)
{
	return soma_budget_limit(budget) - soma_budget_reserved(budget);
}
