/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: reservations, within a budget and without one. */
#include <string.h>

#include "tests/budget_fixture.h"

static struct soma_request
request_for(uint64_t bytes)
{
	return (struct soma_request){ .size = sizeof(struct soma_request), .bytes = bytes };
}

START_TEST(a_reservation_holds_bytes_until_they_are_drawn_or_returned)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *device = budget_of(terminal, 1000), *tenant = budget_of(device, 900);
	struct soma_reservation *reservation;
	struct soma_block block = { .size = sizeof block };
	struct soma_request request = request_for(300);

	ck_assert_int_eq(soma_reservation_create(tenant, 600, &reservation), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_budget_reserved(tenant), 0);
	ck_assert_uint_eq(soma_budget_reserved(device), 0);
	ck_assert_int_eq(try_allocate(terminal, 401), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(try_allocate(tenant, 301), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(soma_reservation_draw(reservation, &request, &block), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_reservation_remaining(reservation), 300);
	ck_assert_uint_eq(soma_budget_reserved(tenant), 300);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 300);
	ck_assert_int_eq(soma_reservation_return(reservation, 200), SOMA_STATUS_OK);
	struct soma_block other = allocate(tenant, 500, 0);
	request = request_for(101);
	ck_assert_int_eq(soma_reservation_draw(reservation, &request, &block), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_reservation_return(reservation, 101), SOMA_STATUS_INVALID_VALUE);
	soma_reservation_destroy(reservation);
	ck_assert_int_eq(try_allocate(tenant, 101), SOMA_STATUS_OUT_OF_BUDGET);
	struct soma_block last = allocate(tenant, 100, 0);
	deallocate(tenant, &last);
	deallocate(tenant, &other);
	deallocate(tenant, &block);
	ck_assert_uint_eq(soma_budget_reserved(device), 0);
	ck_assert_uint_eq(soma_budget_remaining(device), 1000);
	soma_resource_release(tenant);
	soma_resource_release(device);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_draw_that_fails_leaves_the_promise)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_reservation *reservation;
	struct soma_block block = { .size = sizeof block };
	struct soma_request request = request_for(600);

	ck_assert_int_eq(soma_reservation_create(budget, 600, &reservation), SOMA_STATUS_OK);
	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(soma_reservation_draw(reservation, &request, &block), SOMA_STATUS_DRIVER);
	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OK;
	ck_assert_uint_eq(soma_reservation_remaining(reservation), 600);
	ck_assert_int_eq(try_allocate(budget, 401), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(soma_reservation_draw(reservation, &request, &block), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_budget_reserved(budget), 600);
	deallocate(budget, &block);
	soma_reservation_destroy(reservation);
	ck_assert_int_eq(soma_reservation_create(budget, 1001, &reservation), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(soma_reservation_create(budget, 0, &reservation), SOMA_STATUS_INVALID_VALUE);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_budget_is_not_installed_while_a_reservation_exists)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_reservation *reservation;

	ck_assert_int_eq(soma_reservation_create(terminal, 5000, &reservation), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "(bytes: 0, reservations: 1)"));
	soma_reservation_destroy(reservation);
	budget = budget_of(terminal, 1000);
	ck_assert_int_eq(soma_reservation_create(terminal, 5000, &reservation), SOMA_STATUS_OUT_OF_BUDGET);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("reservation", a_budget_is_not_installed_while_a_reservation_exists,
	  a_reservation_holds_bytes_until_they_are_drawn_or_returned, a_draw_that_fails_leaves_the_promise)
