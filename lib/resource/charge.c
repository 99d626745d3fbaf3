/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging a request to its budgets and their parents: all of them or none.  What a single account does is in
 * account.c, and who asks in terminal.c and reservation.c.  No lock is held here.
 */
#include "lib/base/error.h"
#include "lib/resource/resource.h"

void
soma__accounts_undo(struct soma__account *account, const struct soma__account *until, struct soma__call *call)
{
	for (; account != until; account = account->parent)
		soma__account_undo(account, call->index, call->bytes);
}

/* False: refused, with nothing of this chain charged. */
static bool
take_chain(struct soma__account *first, struct soma__call *call)
{
	for (struct soma__account *a = first; a != NULL; a = a->parent) {
		if (soma__account_take(a, call->index, call->bytes, call->pressure))
			continue;
		soma__accounts_undo(first, a, call);
		call->refused = a;
		return false;
	}
	return true;
}

static bool
any_refuses(struct soma__account *account, uint64_t bytes)
{
	for (; account != NULL; account = account->parent)
		if (soma__account_refuses(account, bytes))
			return true;
	return false;
}

static enum soma_status
refuse(struct soma__account *tenant, struct soma__account *domain, struct soma__call *call)
{
	struct soma__account *by = call->refused;
	uint64_t reserved = soma__account_reserved(by), promised = soma__account_promised(by);

	call->hopeless = any_refuses(tenant, call->bytes) || any_refuses(domain, call->bytes);
	soma__fail_sizes(OUT_OF_BUDGET, "out of budget: %s requested, %s of %s reserved", call->bytes, reserved,
			 by->limit);
	soma__error_sizes(call->bytes, reserved, by->limit - reserved, by->limit);
	soma__error_held(promised + call->pressure < promised ? UINT64_MAX : promised + call->pressure, 0);
	return SOMA_STATUS_OUT_OF_BUDGET;
}

enum soma_status
soma__accounts_take(struct soma__account *tenant, struct soma__account *domain, struct soma__call *call)
{
	if (tenant != NULL && !take_chain(tenant, call))
		return refuse(tenant, domain, call);
	if (take_chain(domain, call))
		return SOMA_STATUS_OK;
	soma__accounts_undo(tenant, NULL, call);
	return refuse(tenant, domain, call);
}
