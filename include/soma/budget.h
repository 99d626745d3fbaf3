/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets: at most so many bytes outstanding, and promises out of them.
 *
 * A budget is a resource around another one (<soma/resource.h>); its limit is fixed.
 *
 * A budget with no other budget under it is installed in the ledger: it counts every byte of the stack,
 * also what is allocated around it through a resource under it or through another
 * decorator.  So its `reserved` is the inner resource's bytes_outstanding whenever no
 * call is under way.  It can be made only while nothing is outstanding and no reservation exists; when
 * it is released before the terminal is, nothing is refused for its sake any more.  No allocation or
 * reservation may be under way on another thread while it is made: what began before is not counted.
 *
 * A budget around another budget is a tenant's: it counts what is allocated through it, and
 * so do the budgets under it.
 *
 * Units: bytes, as requested: what a backend adds to a block is in no budget.
 *
 * Thread safety, ownership and errors: as in <soma/resource.h>.  A reservation may be drawn and returned
 * by any number of threads at once; not while it is destroyed.
 *
 * Since 0.1.
 */
#ifndef SOMA_BUDGET_H
#define SOMA_BUDGET_H

#include <soma/resource.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* limit: at least 1.  SOMA_STATUS_INVALID_VALUE: it is 0; or, with no other budget under it, something is
 * outstanding or reserved.  The budget is a resource like any other: soma_resource_release() ends it. */
enum soma_status soma_budget_create(struct soma_resource *inner, uint64_t limit, struct soma_resource **budget);

/* Of the outermost budget at or under this resource; without one the limit is
 * UINT64_MAX and nothing is reserved.  remaining = limit - reserved, at least 0. */
uint64_t soma_budget_limit(struct soma_resource *budget);
uint64_t soma_budget_reserved(struct soma_resource *budget);
uint64_t soma_budget_remaining(struct soma_resource *budget);

/* ---- reservations ----------------------------------------------------------- */

/*
 * A promise of bytes out of all budgets under a resource: nobody else gets them until
 * they are drawn or returned.  It is not memory yet: the backend may still be out of it.
 */
struct soma_reservation;

/* Tries what materialize tries when a budget is short.  Keeps the resource.  SOMA_STATUS_OUT_OF_BUDGET: no room,
 * after all of it.  SOMA_STATUS_INVALID_VALUE: bytes is 0. */
enum soma_status soma_reservation_create(struct soma_resource *resource, uint64_t bytes,
					 struct soma_reservation **reservation);

/*
 * Materialises a block out of the promise.  request->pressure is not looked at: the bytes are promised
 * already.  SOMA_STATUS_INVALID_VALUE when it is larger than
 * what is left; after any other error the promise is as before.
 */
enum soma_status soma_reservation_draw(struct soma_reservation *reservation, const struct soma_request *request,
				       struct soma_block *block);

/* Gives bytes of the promise back.  SOMA_STATUS_INVALID_VALUE: there are not so many left. */
enum soma_status soma_reservation_return(struct soma_reservation *reservation, uint64_t bytes);

/* Bytes neither drawn nor returned. */
uint64_t soma_reservation_remaining(const struct soma_reservation *reservation);

/* Returns what is left.  NULL is allowed.  Drawn blocks stay. */
void soma_reservation_destroy(struct soma_reservation *reservation);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
