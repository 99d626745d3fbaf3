/* SPDX-License-Identifier: Apache-2.0 */
/* Releases of kept blocks that come before the free has returned: what a trace says, and who completes. */
#include <stdio.h>
#include <unistd.h>

#include "lib/resource/kept.h"
#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"
#include "tools/trace/trace.h"

struct scene {
	struct soma_resource *trace;
	struct soma_block again;
};

/* As soon as a free has let go of the address, and before it has returned. */
static void
allocate_again(struct soma_backend *fake, enum fake_op op, void *context)
{
	struct scene *s = context;

	if (op != FAKE_FREE)
		return;
	fake->after = NULL;
	s->again = allocate(s->trace, 1000, 0);
}

static void
expect_events(const char *path, const struct soma_block *first, const struct soma_block *second)
{
	static const enum trace_op ops[] = { TRACE_ALLOC, TRACE_FREE, TRACE_FREE_COMPLETED,
					     TRACE_ALLOC, TRACE_FREE, TRACE_FREE_COMPLETED };
	struct trace_reader *reader;
	struct trace_error error;
	struct trace_event event;

	ck_assert_msg(trace_open(path, NULL, &reader, &error) == TRACE_OK, "%s", error.text);
	for (int i = 0; i < 6; i++) {
		ck_assert_int_eq(trace_next(reader, &event, &error), TRACE_OK);
		ck_assert_int_eq(event.op, ops[i]);
		ck_assert_uint_eq(event.ptr, first->ptr);
		ck_assert_uint_eq(event.generation, i < 3 ? first->id.generation : second->id.generation);
	}
	ck_assert_int_eq(trace_next(reader, &event, &error), TRACE_END);
	trace_close(reader);
}

START_TEST(a_free_is_completed_before_its_address_is_allocated_again)
{
	char path[] = "check_trace_kept.XXXXXX";
	struct soma_trace_config config = { .size = sizeof config, .path = path };
	struct soma_resource *terminal;
	struct soma_backend *fake =
		fake_create(FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED, &terminal);
	struct scene s = { 0 };

	close(mkstemp(path));
	ck_assert_int_eq(soma_trace_create(terminal, &config, &s.trace), SOMA_STATUS_OK);
	struct soma_block block = allocate(s.trace, 1000, 0);
	fake->release_within_free = true;
	fake->context = &s;
	fake->after = allocate_again;
	deallocate(s.trace, &block);
	ck_assert_uint_eq(s.again.ptr, block.ptr);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 1000);
	deallocate(s.trace, &s.again);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(terminal), 0);
	ck_assert_int_eq(soma_trace_flush(s.trace), SOMA_STATUS_OK);
	expect_events(path, &block, &s.again);
	soma_resource_release(s.trace);
	soma_resource_release(terminal);
	fake_destroy(fake);
	unlink(path);
}
END_TEST

/* ---- who completes --------------------------------------------------------------------------- */

static void
check_early(bool free_returns_first)
{
	struct soma_resource *terminal;
	struct soma_backend *fake =
		fake_create(FAKE_ORDERED | SOMA_BACKEND_GUARD | SOMA_BACKEND_KEEPS_FREED, &terminal);
	struct soma__kept *kept = &terminal->terminal->kept;
	struct soma__record first = { .ptr = 4096 }, second = { .ptr = 4096 };
	bool early;

	soma__kept_add(kept, &first);
	ck_assert_ptr_eq(soma__kept_release(kept, 4096, &early), &first);
	ck_assert(early);
	/* Its address is given out again, freed, and released after that free. */
	soma__kept_add(kept, &second);
	ck_assert(!soma__kept_through(kept, &second, false));
	ck_assert_ptr_eq(soma__kept_release(kept, 4096, &early), &second);
	ck_assert(!early);
	if (free_returns_first) {
		ck_assert(!soma__kept_through(kept, &first, false));
		ck_assert(soma__kept_told(kept, &first));
	} else {
		ck_assert(!soma__kept_told(kept, &first));
		ck_assert(soma__kept_through(kept, &first, false));
	}
	ck_assert_ptr_null(soma__kept_release(kept, 4096, &early));
	soma_resource_release(terminal);
	fake_destroy(fake);
}

START_TEST(an_early_release_is_completed_by_the_free_that_returns_after_it)
{
	check_early(false);
}
END_TEST

START_TEST(a_free_that_returns_while_the_release_is_told_leaves_the_block_to_it)
{
	check_early(true);
}
END_TEST

UNIT_MAIN("trace_kept", a_free_is_completed_before_its_address_is_allocated_again,
	  an_early_release_is_completed_by_the_free_that_returns_after_it,
	  a_free_that_returns_while_the_release_is_told_leaves_the_block_to_it)
