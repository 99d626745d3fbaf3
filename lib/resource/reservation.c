/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: bytes charged to every budget under a resource and set aside as promised.  A draw turns
 * promised bytes into a block's, so that nobody can come between.  Locking: none; `remaining` moves by
 * compare-and-swap.
 */
#include "lib/base/error.h"
#include "lib/resource/terminal.h"

struct soma_reservation {
	struct soma_resource *resource;
	struct soma__account *tenant;
	struct soma__account *domain;
	_Atomic uint64_t remaining;
};

static void
promise(struct soma__account *account, uint64_t bytes)
{
	for (; account != NULL; account = account->parent)
		soma__account_promise(account, bytes);
}

static void
draw(struct soma__account *account, uint64_t bytes)
{
	for (; account != NULL; account = account->parent)
		soma__account_draw(account, bytes);
}

static enum soma_status
attempt_reserve(struct soma__call *call)
{
	call->tenant = call->via->tenant;
	call->domain = atomic_load_explicit(&call->via->terminal->ledger.domain, memory_order_acquire);
	return soma__accounts_take(call->tenant, call->domain, call);
}

static enum soma_status
reserve(struct soma_reservation *reservation, struct soma_resource *resource, uint64_t bytes)
{
	struct soma__call call = {
		.via = resource,
		.bytes = bytes,
		.index = soma__thread_index(),
	};
	enum soma_status status = attempt_reserve(&call);

	if (status != SOMA_STATUS_OK)
		status = soma__pressure_relieve(&call, attempt_reserve, status);
	if (status != SOMA_STATUS_OK)
		return status;
	promise(call.tenant, bytes);
	promise(call.domain, bytes);
	atomic_fetch_add_explicit(&resource->terminal->reservations, 1, memory_order_relaxed);
	reservation->resource = soma_resource_retain(resource);
	reservation->tenant = call.tenant;
	reservation->domain = call.domain;
	atomic_init(&reservation->remaining, bytes);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_reservation_create(struct soma_resource *resource, uint64_t bytes, struct soma_reservation **out)
{
	struct soma__arena *arena = resource->terminal->arena;
	struct soma_reservation *reservation;
	enum soma_status status;

	if (bytes == 0)
		return soma__fail(INVALID_VALUE, "a reservation of 0 bytes: expected at least 1");
	reservation = soma__arena_calloc(arena, sizeof *reservation, 0);
	if (reservation == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	status = reserve(reservation, resource, bytes);
	if (status != SOMA_STATUS_OK) {
		soma__arena_free(arena, reservation, sizeof *reservation);
		return status;
	}
	*out = reservation;
	return SOMA_STATUS_OK;
}

/* False: there is not so much left. */
static enum soma_status
take(struct soma_reservation *reservation, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(&reservation->remaining, memory_order_relaxed);

	do {
		if (have < bytes) {
			soma__fail_sizes(INVALID_VALUE, "%s of a reservation that has %s left", bytes, have);
			soma__error_sizes(bytes, 0, have, have);
			return SOMA_STATUS_INVALID_VALUE;
		}
	} while (!atomic_compare_exchange_weak_explicit(&reservation->remaining, &have, have - bytes,
							memory_order_acq_rel, memory_order_relaxed));
	return SOMA_STATUS_OK;
}

/* Charged before, as promised; charged after, as reserved. */
enum soma_status
soma_reservation_draw(struct soma_reservation *reservation, const struct soma_request *request,
		      struct soma_block *block)
{
	struct soma__call call;
	enum soma_status status = soma__resource_call(reservation->resource, request, &call);

	if (status == SOMA_STATUS_OK)
		status = take(reservation, call.bytes);
	if (status != SOMA_STATUS_OK)
		return status;
	call.prepaid = true;
	call.tenant = reservation->tenant;
	call.domain = reservation->domain;
	draw(call.tenant, call.bytes);
	draw(call.domain, call.bytes);
	status = soma__resource_run(&call, block);
	if (status == SOMA_STATUS_OK)
		return status;
	promise(call.tenant, call.bytes);
	promise(call.domain, call.bytes);
	atomic_fetch_add_explicit(&reservation->remaining, call.bytes, memory_order_acq_rel);
	return status;
}

enum soma_status
soma_reservation_return(struct soma_reservation *reservation, uint64_t bytes)
{
	unsigned index = soma__thread_index();
	enum soma_status status = take(reservation, bytes);

	if (status != SOMA_STATUS_OK)
		return status;
	draw(reservation->tenant, bytes);
	draw(reservation->domain, bytes);
	soma__accounts_give(reservation->tenant, index, bytes);
	soma__accounts_give(reservation->domain, index, bytes);
	return SOMA_STATUS_OK;
}

uint64_t
soma_reservation_remaining(const struct soma_reservation *reservation)
{
	return atomic_load_explicit(&reservation->remaining, memory_order_acquire);
}

void
soma_reservation_destroy(struct soma_reservation *reservation)
{
	struct soma_resource *resource;

	if (reservation == NULL)
		return;
	(void)soma_reservation_return(reservation, soma_reservation_remaining(reservation));
	resource = reservation->resource;
	atomic_fetch_sub_explicit(&resource->terminal->reservations, 1, memory_order_relaxed);
	soma__arena_free(resource->terminal->arena, reservation, sizeof *reservation);
	soma_resource_release(resource);
}
