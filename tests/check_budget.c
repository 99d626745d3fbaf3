/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: budgets, and how they nest. */
#include <string.h>

#include "lib/resource/terminal.h"
#include "tests/budget_fixture.h"

#define KIB ((uint64_t)1024)
#define MIB (KIB * KIB)

START_TEST(a_budget_is_kept_to_the_byte)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_block a = allocate(budget, 400, 0), b = allocate(budget, 599, 0);

	ck_assert_uint_eq(soma_budget_limit(budget), 1000);
	ck_assert_uint_eq(soma_budget_reserved(budget), 999);
	ck_assert_uint_eq(soma_budget_remaining(budget), 1);
	ck_assert_int_eq(try_allocate(budget, 2), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(2, 999, 1, 1000);
	struct soma_block c = allocate(budget, 1, 0);
	ck_assert_uint_eq(soma_budget_remaining(budget), 0);
	deallocate(budget, &a);
	ck_assert_int_eq(try_allocate(budget, 401), SOMA_STATUS_OUT_OF_BUDGET);
	a = allocate(budget, 400, 0);
	deallocate(budget, &a);
	deallocate(budget, &b);
	deallocate(budget, &c);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(more_than_the_limit_is_refused_at_once)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);

	ck_assert_int_eq(try_allocate(budget, 1001), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(1001, 0, 1000, 1000);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "larger than the limit"));
	ck_assert_int_eq(try_allocate(budget, UINT64_MAX), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_uint_eq(fake_count(fake, FAKE_ALLOC), 0);
	ck_assert_uint_eq(fake_count(fake, FAKE_GUARD_SETTLE), 0);
	ck_assert_uint_eq(fake_count(fake, FAKE_GUARD_DRAIN), 0);
	ck_assert_int_eq(soma_budget_create(terminal, 0, &budget), SOMA_STATUS_INVALID_VALUE);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_failure_of_the_backend_charges_nothing)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);

	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_DRIVER;
	ck_assert_int_eq(try_allocate(budget, 1000), SOMA_STATUS_DRIVER);
	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	ck_assert_int_eq(try_allocate(budget, 1000), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(soma_error_last()->requested, 1000);
	ck_assert_uint_eq(soma_error_last()->limit, (uint64_t)1 << 40);
	fake->fail_with[FAKE_ALLOC] = SOMA_STATUS_OK;
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	struct soma_block block = allocate(budget, 1000, 0);
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(nobody_allocates_around_a_budget)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *one = budget_of(terminal, 1000), *two = budget_of(terminal, 2000);
	struct soma_block a = allocate(terminal, 300, 0), b = allocate(one, 300, 0),
			  c = allocate(two, 300, 0);

	ck_assert_uint_eq(soma_budget_reserved(one), 900);
	ck_assert_uint_eq(soma_budget_reserved(two), 900);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 900);
	ck_assert_int_eq(try_allocate(terminal, 101), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(try_allocate(two, 101), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(101, 900, 100, 1000);
	deallocate(two, &a);
	deallocate(terminal, &b);
	deallocate(one, &c);
	ck_assert_uint_eq(soma_budget_reserved(one), 0);
	ck_assert_uint_eq(soma_budget_reserved(two), 0);
	soma_resource_release(one);
	soma_resource_release(two);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_budget_is_installed_only_while_nothing_is_outstanding)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_block block = allocate(terminal, 300, 0);

	ck_assert_int_eq(soma_budget_create(terminal, 1000, &budget), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "(bytes: 300, reservations: 0)"));
	deallocate(terminal, &block);
	budget = budget_of(terminal, 1000);
	soma_resource_release(budget);
	block = allocate(terminal, 5000, 0);
	deallocate(terminal, &block);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

static unsigned
count_decorators(const struct soma_resource *terminal)
{
	unsigned count = 0;

	for (const struct soma_resource *r = terminal->terminal->decorators; r != NULL; r = r->sibling)
		count++;
	return count;
}

static struct soma__account *
first_account(const struct soma_resource *terminal)
{
	return atomic_load(&terminal->terminal->ledger.domain);
}

START_TEST(a_closed_budget_is_charged_no_more)
{
	struct soma_resource *terminal, *budget;
	struct soma_backend *fake = fake_create(0, &terminal);

	for (int i = 0; i < 100; i++) {
		budget = budget_of(terminal, 1000);
		struct soma_block inside = allocate(budget, 600, 0);
		ck_assert_int_eq(try_allocate(terminal, 600), SOMA_STATUS_OUT_OF_BUDGET);
		soma_resource_release(budget);
		ck_assert_ptr_null(first_account(terminal));
		struct soma_block outside = allocate(terminal, 5000, 0);
		ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 5600);
		deallocate(terminal, &inside);
		deallocate(terminal, &outside);
		ck_assert_uint_le(count_decorators(terminal),
				  1); /* the latest, which the next one takes along */
	}
	budget = budget_of(terminal, 1000);
	ck_assert_uint_eq(count_decorators(terminal), 1);
	ck_assert_ptr_null(first_account(terminal)->parent);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_budget_that_closes_between_others_leaves_them_exact)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *one = budget_of(terminal, 1000), *two = budget_of(terminal, 1000);
	struct soma_resource *three = budget_of(terminal, 900);
	struct soma_block block = allocate(one, 300, 0), other;

	soma_resource_release(two);
	other = allocate(terminal, 100, 0);
	ck_assert_uint_eq(soma_budget_reserved(one), 400);
	ck_assert_uint_eq(soma_budget_reserved(three), 400);
	ck_assert_int_eq(try_allocate(terminal, 501), SOMA_STATUS_OUT_OF_BUDGET);
	deallocate(one, &block);
	deallocate(one, &other);
	two = budget_of(terminal, 800); /* takes along the one that was closed */
	ck_assert_uint_eq(count_decorators(terminal), 3);
	ck_assert_ptr_eq(first_account(terminal), two->budget);
	ck_assert_ptr_eq(two->budget->parent, three->budget);
	ck_assert_ptr_eq(three->budget->parent, one->budget);
	ck_assert_ptr_null(one->budget->parent);
	block = allocate(three, 800, 0);
	ck_assert_uint_eq(soma_budget_reserved(one), 800);
	ck_assert_uint_eq(soma_budget_reserved(two), 800);
	ck_assert_uint_eq(soma_budget_reserved(three), 800);
	deallocate(one, &block);
	ck_assert_uint_eq(soma_budget_reserved(one), 0);
	soma_resource_release(one);
	soma_resource_release(three);
	ck_assert_ptr_eq(first_account(terminal), two->budget);
	soma_resource_release(two);
	ck_assert_ptr_null(first_account(terminal));
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* A block that was charged to it is on its way to its end, though not outstanding any more. */
START_TEST(a_closed_budget_stays_while_a_record_names_it)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *old = budget_of(terminal, 1000), *new;
	struct soma_block block = allocate(old, 300, 0);
	struct soma__record *record = soma__record_of(&terminal->terminal->ledger, block.id.handle);

	soma_resource_release(old);
	deallocate(terminal, &block);
	atomic_store(&record->via, terminal); /* as before the last step of a free */
	new = budget_of(terminal, 1000);
	ck_assert_uint_eq(count_decorators(terminal), 2);
	atomic_store(&record->via, NULL);
	soma_resource_release(new);
	new = budget_of(terminal, 1000);
	ck_assert_uint_eq(count_decorators(terminal), 1);
	soma_resource_release(new);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(tenants_count_their_own_within_the_device)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *device = budget_of(terminal, 1000);
	struct soma_resource *one = budget_of(device, 800), *two = budget_of(device, 800);
	struct soma_resource *inner = budget_of(one, 500);
	struct soma_block a = allocate(inner, 300, 0), b = allocate(two, 600, 0);

	ck_assert_uint_eq(soma_budget_reserved(inner), 300);
	ck_assert_uint_eq(soma_budget_reserved(one), 300);
	ck_assert_uint_eq(soma_budget_reserved(two), 600);
	ck_assert_uint_eq(soma_budget_reserved(device), 900);
	ck_assert_int_eq(try_allocate(inner, 150), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(150, 900, 100, 1000);
	ck_assert_uint_eq(soma_budget_reserved(inner), 300);
	ck_assert_uint_eq(soma_budget_reserved(one), 300);
	ck_assert_int_eq(try_allocate(inner, 201), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(201, 300, 200, 500);
	deallocate(device, &a);
	ck_assert_uint_eq(soma_budget_reserved(inner), 0);
	ck_assert_uint_eq(soma_budget_reserved(device), 600);
	deallocate(inner, &b);
	ck_assert_uint_eq(soma_budget_reserved(two), 0);
	soma_resource_release(inner);
	soma_resource_release(one);
	soma_resource_release(two);
	soma_resource_release(device);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_tenant_that_is_gone_leaves_its_blocks_in_order)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *device = budget_of(terminal, 1000), *tenant = budget_of(device, 500);
	struct soma_block block = allocate(tenant, 300, 0);

	soma_resource_release(tenant);
	ck_assert_ptr_nonnull(terminal->terminal->decorators->sibling);
	ck_assert_uint_eq(soma_budget_reserved(device), 300);
	deallocate(device, &block);
	ck_assert_uint_eq(soma_budget_reserved(device), 0);
	/* The next one to go takes it along. */
	tenant = budget_of(device, 500);
	soma_resource_release(tenant);
	ck_assert_ptr_eq(terminal->terminal->decorators, device);
	ck_assert_ptr_null(device->sibling);
	soma_resource_release(device);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_snapshot_is_the_outermost_budgets)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_budget_snapshot snapshot = { .size = sizeof snapshot };

	ck_assert_int_eq(soma_resource_budget_snapshot(terminal, &snapshot), SOMA_STATUS_NOT_FOUND);
	ck_assert_uint_eq(soma_budget_limit(terminal), UINT64_MAX);
	ck_assert_uint_eq(soma_budget_reserved(terminal), 0);
	struct soma_resource *device = budget_of(terminal, 1000), *tenant = budget_of(device, 500);
	struct soma_block block = allocate(tenant, 100, 0);
	ck_assert_int_eq(soma_resource_budget_snapshot(tenant, &snapshot), SOMA_STATUS_OK);
	ck_assert_uint_eq(snapshot.limit, 500);
	ck_assert_uint_eq(snapshot.reserved, 100);
	ck_assert_uint_eq(snapshot.remaining, 400);
	ck_assert_int_eq(soma_resource_budget_snapshot(device, &snapshot), SOMA_STATUS_OK);
	ck_assert_uint_eq(snapshot.limit, 1000);
	deallocate(tenant, &block);
	soma_resource_release(tenant);
	soma_resource_release(device);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(pressure_leaves_room_for_what_is_promised)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_allocate_with_reservation_pressure(budget, 600, 0, 401, &block),
			 SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(soma_resource_allocate_with_reservation_pressure(budget, 600, 0, UINT64_MAX, &block),
			 SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	ck_assert_int_eq(soma_resource_allocate_with_reservation_pressure(budget, 600, 0, 400, &block),
			 SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_budget_reserved(budget), 600);
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- credit that lies with threads ------------------------------------------------------ */

struct elsewhere {
	struct soma_resource *resource;
	struct soma_block block;
	uint64_t bytes;
};

static void *
allocate_elsewhere(void *argument)
{
	struct elsewhere *e = argument;

	e->block = allocate(e->resource, e->bytes, 0);
	return NULL;
}

static void *
deallocate_elsewhere(void *argument)
{
	struct elsewhere *e = argument;

	deallocate(e->resource, &e->block);
	return NULL;
}

static void
run_elsewhere(void *(*function)(void *), struct elsewhere *e)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, function, e), 0);
	pthread_join(thread, NULL);
}

START_TEST(what_other_threads_keep_is_taken_back_before_a_refusal)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 64 * MIB);
	struct elsewhere e = { .resource = budget, .bytes = 4 * KIB };

	/* Credit with other threads, and bytes that others released. */
	for (int i = 0; i < 5; i++)
		run_elsewhere(allocate_elsewhere, &e);
	struct soma_block mine = allocate(budget, 60 * MIB, 0), rest = { .size = sizeof rest };
	struct elsewhere m = { .resource = budget, .block = mine };
	run_elsewhere(deallocate_elsewhere, &m);
	ck_assert_uint_eq(soma_budget_reserved(budget), 5 * 4 * KIB);
	rest = allocate(budget, 64 * MIB - 5 * 4 * KIB, 0);
	ck_assert_uint_eq(soma_budget_remaining(budget), 0);
	ck_assert_int_eq(try_allocate(budget, 1), SOMA_STATUS_OUT_OF_BUDGET);
	deallocate(budget, &rest);
	deallocate(budget, &e.block);
	ck_assert_uint_eq(soma_budget_reserved(budget), 4 * 4 * KIB);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("budget", a_budget_is_kept_to_the_byte, more_than_the_limit_is_refused_at_once,
	  a_failure_of_the_backend_charges_nothing, nobody_allocates_around_a_budget,
	  a_budget_is_installed_only_while_nothing_is_outstanding, a_closed_budget_is_charged_no_more,
	  a_budget_that_closes_between_others_leaves_them_exact,
	  a_closed_budget_stays_while_a_record_names_it, tenants_count_their_own_within_the_device,
	  a_tenant_that_is_gone_leaves_its_blocks_in_order, a_snapshot_is_the_outermost_budgets,
	  pressure_leaves_room_for_what_is_promised, what_other_threads_keep_is_taken_back_before_a_refusal)
