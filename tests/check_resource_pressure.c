/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: what is done when a budget or the device is short, and what a failure says. */
#include <string.h>

#include "lib/resource/terminal.h"
#include "tests/budget_fixture.h"

/* ---- the ladder ----------------------------------------------------------------------------- */

struct owner {
	struct soma_resource *resource;
	struct soma_block blocks[8];
	int count; /* blocks that it can free, the last one first */
	unsigned calls;
	uint64_t needed; /* of the first call */
	bool nested;     /* allocates more from within */
	enum soma_status nested_status;
};

static bool
free_one(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct owner *owner = context;

	owner->calls++;
	ck_assert_uint_eq(attempt, owner->calls);
	if (attempt == 1)
		owner->needed = bytes_needed;
	if (owner->nested) {
		owner->nested = false;
		owner->nested_status = try_allocate(owner->resource, 1000);
	}
	if (owner->count == 0)
		return false;
	deallocate(owner->resource, &owner->blocks[--owner->count]);
	return true;
}

START_TEST(the_owner_is_asked_until_there_is_room)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct owner owner = { .resource = budget, .count = 5, .nested = true };

	soma_resource_set_pressure_callback(terminal, free_one, &owner);
	for (int i = 0; i < 5; i++)
		owner.blocks[i] = allocate(budget, 180, 0);
	struct soma_block block = allocate(budget, 500, 0);
	ck_assert_uint_eq(owner.calls, 3);
	ck_assert_uint_eq(owner.needed, 400);
	ck_assert_int_eq(owner.nested_status, SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(owner.count, 2);
	deallocate(budget, &block);
	soma_resource_set_pressure_callback(terminal, NULL, NULL);
	ck_assert_int_eq(try_allocate(budget, 900), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_uint_eq(owner.calls, 3);
	while (owner.count > 0)
		deallocate(budget, &owner.blocks[--owner.count]);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

static bool
promise_much(void *context, uint64_t bytes_needed, unsigned attempt)
{
	(void)bytes_needed;
	*(unsigned *)context = attempt;
	return true;
}

START_TEST(an_owner_who_frees_nothing_is_not_asked_for_ever)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_block block = allocate(budget, 1000, 0);
	unsigned attempts = 0;

	soma_resource_set_pressure_callback(budget, promise_much, &attempts);
	ck_assert_int_eq(try_allocate(budget, 1), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_uint_eq(attempts, SOMA_PRESSURE_ATTEMPTS_MAX);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "8 times"));
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

static enum fake_op order[16];
static int order_count;

static void
note_order(struct soma_backend *fake, enum fake_op op, void *context)
{
	(void)fake, (void)context;
	if (op == FAKE_POOL_TRIM || op == FAKE_GUARD_DRAIN || op == FAKE_GUARD_SETTLE ||
	    op == FAKE_SYNCHRONIZE)
		order[order_count++] = op;
}

START_TEST(the_ladder_goes_from_the_cheapest_to_the_dearest)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(
		FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED | SOMA_BACKEND_POOL, &resource);
	unsigned attempts = 0;
	static const enum fake_op expected[] = { FAKE_GUARD_SETTLE, FAKE_GUARD_DRAIN, FAKE_GUARD_DRAIN,
						 FAKE_POOL_TRIM,    FAKE_SYNCHRONIZE, FAKE_GUARD_SETTLE,
						 FAKE_GUARD_DRAIN,  FAKE_POOL_TRIM };

	fake->limit = 1000;
	fake->before = note_order;
	soma_resource_set_pressure_callback(resource, promise_much, &attempts);
	ck_assert_int_eq(try_allocate(resource, 2000), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_int_eq(order_count, 8);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(order[i], expected[i]);
	ck_assert_uint_eq(attempts, SOMA_PRESSURE_ATTEMPTS_MAX);
	const char *text = soma_error_last()->text;
	ck_assert_ptr_nonnull(strstr(text, "reaped finished frees, settled the guard, drained quarantine"));
	ck_assert_ptr_nonnull(strstr(text, "trimmed the pool, synchronised the device"));
	check_error_sizes(2000, 0, 1000, 1000);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* A pool that releases memory at a trim only when the host has seen the end of the free. */
static void
release_what_was_seen(struct soma_backend *fake, enum fake_op op, void *context)
{
	bool *seen = context;

	*seen = *seen || op == FAKE_SYNCHRONIZE;
	if (op == FAKE_POOL_TRIM && *seen)
		fake->limit = 2000;
}

START_TEST(memory_that_a_synchronisation_brings_back_is_found)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED | SOMA_BACKEND_POOL, &resource);
	bool seen = false;

	fake->limit = 1000;
	fake->before = release_what_was_seen;
	fake->context = &seen;
	struct soma_block block = allocate(resource, 1500, 0);
	ck_assert_uint_eq(fake_count(fake, FAKE_SYNCHRONIZE), 1);
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(no_budget_is_met_by_synchronising)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(FAKE_ORDERED | SOMA_BACKEND_POOL, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_block block = allocate(budget, 800, 0);

	ck_assert_int_eq(try_allocate(budget, 300), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_uint_eq(fake_count(fake, FAKE_SYNCHRONIZE), 0);
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_failure_names_the_largest_holders)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	static const struct {
		const char *tag;
		uint64_t bytes;
	} held[] = { { "small", 10 }, { "kv", 400 }, { "weights", 300 }, { "grad", 200 } };
	struct soma_block blocks[4];

	for (int i = 0; i < 4; i++) {
		soma_tag_push(soma_tag_intern(held[i].tag));
		blocks[i] = allocate(budget, held[i].bytes, 0);
		soma_tag_pop();
	}
	ck_assert_int_eq(try_allocate(budget, 500), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_ptr_nonnull(
		strstr(soma_error_last()->text, "most is held by kv 400 B, weights 300 B, grad 200 B"));
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, ": 500 B requested, "));
	ck_assert_ptr_null(strstr(soma_error_last()->text, "small"));
	for (int i = 0; i < 4; i++)
		deallocate(budget, &blocks[i]);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(quarantine_counts_until_it_is_let_go)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_block block = allocate(budget, 600, 0);

	deallocate(budget, &block);
	ck_assert_uint_eq(soma_budget_reserved(budget), 600);
	soma__terminal_released(terminal, block.ptr + 8, 600);
	soma__terminal_released(NULL, block.ptr, 600);
	ck_assert_uint_eq(soma_budget_reserved(budget), 600);
	block = allocate(budget, 600, 0);
	ck_assert_uint_eq(soma_budget_reserved(budget), 600);
	deallocate(budget, &block);
	fake->release_within_free = true;
	block = allocate(budget, 100, 0);
	deallocate(budget, &block);
	ck_assert_uint_eq(soma_budget_reserved(budget), 0);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(budget), 0);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- what is said of the bytes that count -------------------------------------------------- */

static void
expect_held(uint64_t promised, uint64_t retired, const char *part)
{
	const struct soma_error *error = soma_error_last();

	ck_assert_int_eq(error->status, SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_uint_eq(error->promised, promised);
	ck_assert_uint_eq(error->retired, retired);
	ck_assert_msg(strstr(error->text, part) != NULL, "%s", error->text);
}

START_TEST(a_refusal_tells_what_waiting_and_what_shrinking_would_bring)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	uint64_t a = new_stream(terminal), b = new_stream(terminal);
	struct soma_block kept = allocate(budget, 300, a), first = allocate(budget, 200, a),
			  second = allocate(terminal, 101, b), other = { .size = sizeof other };
	struct soma_reservation *reservation;

	ck_assert_int_eq(try_allocate(budget, 400), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(400, 601, 399, 1000);
	expect_held(0, 0, ": 400 B requested, 601 B of 1000 B in use; tried:");
	deallocate(budget, &first);
	deallocate(terminal, &second);
	ck_assert_int_eq(soma_reservation_create(budget, 150, &reservation), SOMA_STATUS_OK);
	ck_assert_int_eq(try_allocate(budget, 250), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(250, 601, 399, 1000);
	expect_held(150, 301,
		    ": 250 B requested, 601 B of 1000 B in use, 301 B of it freed and not given "
		    "back yet; 150 B more are promised; tried:");
	ck_assert_int_eq(soma_resource_allocate_with_reservation_pressure(budget, 200, 0, 70, &other),
			 SOMA_STATUS_OUT_OF_BUDGET);
	expect_held(220, 301, "; 220 B more are promised; tried:");
	ck_assert_int_eq(soma_resource_allocate_with_reservation_pressure(budget, 200, 0, UINT64_MAX, &other),
			 SOMA_STATUS_OUT_OF_BUDGET);
	expect_held(UINT64_MAX, 301, " more are promised; tried:");
	/* 250 is more than 399 - 150, and waiting brings 301. */
	fake_run(fake, terminal, b);
	ck_assert_int_eq(try_allocate(budget, 351), SOMA_STATUS_OUT_OF_BUDGET);
	expect_held(150, 200, ", 200 B of it freed and not given back yet; 150 B more are promised");
	other = allocate(budget, 250, 0);
	fake_run_all(fake);
	ck_assert_int_eq(try_allocate(budget, 301), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(301, 550, 450, 1000);
	expect_held(150, 0, ": 301 B requested, 550 B of 1000 B in use; 150 B more are promised; tried:");
	soma_reservation_destroy(reservation);
	deallocate(budget, &other);
	deallocate(budget, &kept);
	fake_run_all(fake);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

struct busy {
	struct soma_resource *budget;
	uint64_t stream;
};

static bool
allocate_and_free(void *context, uint64_t bytes_needed, unsigned attempt)
{
	const struct busy *busy = context;
	struct soma_block block = allocate(busy->budget, 600, busy->stream);

	(void)bytes_needed;
	(void)attempt;
	deallocate(busy->budget, &block);
	return false;
}

START_TEST(no_more_is_told_to_be_freed_than_is_told_to_be_in_use)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	struct busy busy = { .budget = budget_of(terminal, 1000), .stream = new_stream(terminal) };
	struct soma_block kept = allocate(busy.budget, 300, busy.stream);

	soma_resource_set_pressure_callback(terminal, allocate_and_free, &busy);
	ck_assert_int_eq(try_allocate(busy.budget, 800), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(800, 300, 700, 1000);
	expect_held(0, 300, ": 800 B requested, 300 B of 1000 B in use, 300 B of it freed");
	soma_resource_set_pressure_callback(terminal, NULL, NULL);
	deallocate(busy.budget, &kept);
	fake_run_all(fake);
	soma_resource_release(busy.budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_reservation_that_is_refused_is_told_the_same)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	uint64_t stream = new_stream(terminal);
	struct soma_block block = allocate(budget, 500, stream);
	struct soma_reservation *reservation, *refused;

	deallocate(budget, &block);
	ck_assert_int_eq(soma_reservation_create(budget, 400, &reservation), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_reservation_create(budget, 101, &refused), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(101, 500, 500, 1000);
	expect_held(400, 500,
		    "500 B of 1000 B in use, 500 B of it freed and not given back yet; 400 B more are");
	soma_reservation_destroy(reservation);
	fake_run_all(fake);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* Frees of each tenant's, and of nobody's, on two streams. */
static void
free_by_tenants(struct soma_resource *device, struct soma_resource *outer, struct soma_resource *inner,
		struct soma_resource *other, uint64_t a, uint64_t b)
{
	const struct {
		struct soma_resource *by;
		uint64_t bytes, stream;
	} made[] = {
		{ device, 1, a }, { outer, 20, a }, { inner, 300, b }, { other, 4000, a }, { inner, 50, a }
	};

	for (unsigned i = 0; i < sizeof made / sizeof made[0]; i++) {
		struct soma_block block = allocate(made[i].by, made[i].bytes, made[i].stream);
		deallocate(device, &block);
	}
}

/* `capabilities` that keep what was freed: until the streams run, or in a quarantine that cannot be drained. */
static void
expect_of_tenants(uint64_t capabilities)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(capabilities, &terminal);
	struct soma_resource *device = budget_of(terminal, 10000), *outer = budget_of(device, 1000),
			     *inner = budget_of(outer, 600), *other = budget_of(device, 5000);
	uint64_t a = capabilities & SOMA_BACKEND_STREAMS ? new_stream(terminal) : 0;
	uint64_t b = capabilities & SOMA_BACKEND_STREAMS ? new_stream(terminal) : 0;

	fake->keep_max = FAKE_BLOCKS;
	fake->fail_with[FAKE_GUARD_DRAIN] = SOMA_STATUS_DRIVER;
	free_by_tenants(device, outer, inner, other, a, b);
	ck_assert_int_eq(try_allocate(inner, 300), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(300, 350, 250, 600);
	expect_held(0, 350, "350 B of 600 B in use, 350 B of it freed");
	ck_assert_int_eq(try_allocate(outer, 700), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(700, 370, 630, 1000);
	expect_held(0, 370, "370 B of 1000 B in use, 370 B of it freed");
	ck_assert_int_eq(try_allocate(other, 1001), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(1001, 4000, 1000, 5000);
	expect_held(0, 4000, "of it freed");
	ck_assert_int_eq(try_allocate(device, 6000), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(6000, 4371, 5629, 10000);
	expect_held(0, 4371, "of it freed");
	fake->fail_with[FAKE_GUARD_DRAIN] = SOMA_STATUS_OK;
	soma_resource_release(inner);
	soma_resource_release(outer);
	soma_resource_release(other);
	soma_resource_release(device);
	fake_run_all(fake);
	soma_resource_release(terminal);
	fake_destroy(fake);
}

START_TEST(each_tenant_is_told_of_its_own_frees_alone)
{
	expect_of_tenants(FAKE_ORDERED);
	expect_of_tenants(FAKE_ORDERED | FAKE_RECORDS);
	expect_of_tenants(FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED);
	expect_of_tenants(SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED);
}
END_TEST

START_TEST(what_is_short_of_device_memory_has_neither)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_reservation *reservation;

	ck_assert_int_eq(soma_reservation_create(budget, 400, &reservation), SOMA_STATUS_OK);
	fake->limit = 100;
	ck_assert_int_eq(try_allocate(budget, 200), SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	ck_assert_uint_eq(soma_error_last()->promised | soma_error_last()->retired, 0);
	ck_assert_ptr_null(strstr(soma_error_last()->text, "promised"));
	soma_reservation_destroy(reservation);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

/* ---- callbacks of several stacks -------------------------------------------------------------- */

struct side {
	struct soma_backend *fake;
	struct soma_resource *terminal, *budget;
	struct side *other;
	int calls;
};

static bool
ask_the_other(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct side *side = context;

	(void)bytes_needed, (void)attempt;
	side->calls++;
	ck_assert_int_eq(try_allocate(side->other->budget, 900), SOMA_STATUS_OUT_OF_BUDGET);
	return false;
}

static void
begin_side(struct side *side, struct side *other)
{
	side->fake = fake_create(0, &side->terminal);
	side->budget = budget_of(side->terminal, 1000);
	side->other = other;
	soma_resource_set_pressure_callback(side->budget, ask_the_other, side);
}

START_TEST(callbacks_that_ask_each_others_stacks_end)
{
	struct side a = { 0 }, b = { 0 };

	begin_side(&a, &b);
	begin_side(&b, &a);
	struct soma_block of_a = allocate(a.budget, 600, 0), of_b = allocate(b.budget, 600, 0);
	ck_assert_int_eq(try_allocate(a.budget, 900), SOMA_STATUS_OUT_OF_BUDGET);
	ck_assert_int_eq(a.calls, 1);
	ck_assert_int_eq(b.calls, 1);
	deallocate(a.budget, &of_a);
	deallocate(b.budget, &of_b);
	soma_resource_release(a.budget);
	soma_resource_release(a.terminal);
	soma_resource_release(b.budget);
	soma_resource_release(b.terminal);
	fake_destroy(a.fake);
	fake_destroy(b.fake);
}
END_TEST

static bool
fail_otherwise(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct soma_block no_block = { .size = sizeof no_block, .ptr = 1, .id = { 1, 1 } };

	(void)bytes_needed, (void)attempt;
	ck_assert_int_ne(soma_resource_deallocate(context, &no_block), SOMA_STATUS_OK);
	return false;
}

START_TEST(errors_within_the_callback_do_not_change_the_figures)
{
	struct soma_resource *terminal;
	struct soma_backend *fake = fake_create(0, &terminal);
	struct soma_resource *budget = budget_of(terminal, 1000);
	struct soma_block block = allocate(budget, 600, 0);

	soma_resource_set_pressure_callback(budget, fail_otherwise, budget);
	ck_assert_int_eq(try_allocate(budget, 900), SOMA_STATUS_OUT_OF_BUDGET);
	check_error_sizes(900, 600, 400, 1000);
	deallocate(budget, &block);
	soma_resource_release(budget);
	soma_resource_release(terminal);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("resource_pressure", a_refusal_tells_what_waiting_and_what_shrinking_would_bring,
	  no_more_is_told_to_be_freed_than_is_told_to_be_in_use,
	  a_reservation_that_is_refused_is_told_the_same, each_tenant_is_told_of_its_own_frees_alone,
	  what_is_short_of_device_memory_has_neither, errors_within_the_callback_do_not_change_the_figures,
	  callbacks_that_ask_each_others_stacks_end, the_owner_is_asked_until_there_is_room,
	  an_owner_who_frees_nothing_is_not_asked_for_ever, the_ladder_goes_from_the_cheapest_to_the_dearest,
	  memory_that_a_synchronisation_brings_back_is_found, no_budget_is_met_by_synchronising,
	  a_failure_names_the_largest_holders, quarantine_counts_until_it_is_let_go)
