/* SPDX-License-Identifier: Apache-2.0 */
/* What lib/resource and the guard owe each other, over guard:host: reports of what the resource refuses, and
 * bytes that mean the same on both sides. */
#include "lib/resource/terminal.h"
#include "tests/stack_fixture.h"

#include <stdio.h>
#include <string.h>

static const struct soma_backend_option quiet[] = { { "guard.on_error", "callback" } };
static const struct soma_backend_option mapped[] = { { "guard.on_error", "callback" },
						     { "guard.mode", "full" } };

struct scene {
	struct soma_resource *resource;
	uint64_t a, b;
	struct soma_block block; /* 1000 bytes, on stream a */
	unsigned reports;
	char kind[32];
	char text[8192]; /* of the last one */
};

static void
on_report(void *context, const struct soma_backend_guard_report *report)
{
	struct scene *s = context;

	s->reports++;
	snprintf(s->kind, sizeof s->kind, "%s", report->kind);
	snprintf(s->text, sizeof s->text, "%s", report->text);
}

static void
begin(struct scene *s)
{
	*s = (struct scene){ .resource = open_guarded(quiet, 1) };
	struct soma__backend *backend = soma__resource_backend(s->resource);
	struct soma_request request = { .size = sizeof request, .bytes = 1000 };

	backend->ops->guard_listen(backend->self, on_report, s);
	ck_assert_int_eq(soma_resource_stream_create(s->resource, 1, &s->a), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_create(s->resource, 1, &s->b), SOMA_STATUS_OK);
	request.stream = s->a;
	request.tag = soma_tag_intern("weights");
	ck_assert_int_eq(soma_resource_materialize(s->resource, &request, &s->block), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_deallocate(s->resource, &s->block), SOMA_STATUS_OK);
}

static void
end(struct scene *s)
{
	soma_resource_release(s->resource);
}

/* So many reports so far, the last one of this kind and with both parts in it. */
static void
expect(struct scene *s, unsigned reports, const char *kind, const char *part, const char *other)
{
	ck_assert_uint_eq(s->reports, reports);
	ck_assert_uint_eq(guard_stats_of(s->resource).reports, reports);
	ck_assert_str_eq(s->kind, kind);
	ck_assert_msg(strstr(s->text, part) != NULL, "\"%s\" is not in:\n%s", part, s->text);
	ck_assert_msg(strstr(s->text, other) != NULL, "\"%s\" is not in:\n%s", other, s->text);
}

static void
free_again(struct scene *s)
{
	ck_assert_int_eq(soma_resource_deallocate(s->resource, &s->block), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_USE_AFTER_FREE);
}

static void
use_again(struct scene *s)
{
	struct soma_use use = { .size = sizeof use };

	ck_assert_int_eq(soma_resource_prepare_use(s->resource, s->block.id, s->b, SOMA_ACCESS_WRITE, &use),
			 SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_int_eq(soma_error_last()->status, SOMA_STATUS_USE_AFTER_FREE);
}

/* Free and both kinds of use, each a report with the first free and its stack. */
static void
expect_both(struct scene *s, const char *state)
{
	char part[64];

	snprintf(part, sizeof part, "tag \"weights\" dev 0 state %s", state);
	free_again(s);
	expect(s, 1, "double-free", part, "\n free: stream ");
	ck_assert_ptr_nonnull(strstr(strstr(s->text, "\n free: stream "), "    #0 "));
	use_again(s);
	expect(s, 2, "use-after-free", part, "\n free: stream ");
	ck_assert_ptr_nonnull(strstr(s->text, "found by: declared use"));
	ck_assert_int_eq(soma_resource_record_use(s->resource, s->block.id, s->b),
			 SOMA_STATUS_USE_AFTER_FREE);
	expect(s, 3, "use-after-free", part, "\n free: stream ");
}

START_TEST(misuse_of_a_retired_block_is_reported_once)
{
	struct scene s;

	begin(&s);
	expect_both(&s, "retired");
	end(&s);
}
END_TEST

START_TEST(misuse_of_a_quarantined_block_is_reported_once)
{
	struct scene s;

	begin(&s);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.resource, s.a), SOMA_STATUS_OK);
	expect_both(&s, "quarantined");
	end(&s);
}
END_TEST

START_TEST(misuse_of_a_tombstone_is_reported_once)
{
	struct scene s;

	begin(&s);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.resource, s.a), SOMA_STATUS_OK);
	drain_guard(s.resource);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(s.resource), 0);
	expect_both(&s, "freed");
	end(&s);
}
END_TEST

START_TEST(a_stale_name_is_not_taken_for_the_new_block_at_its_address)
{
	struct scene s;
	struct soma_block other = { .size = sizeof other };
	char part[96];

	begin(&s);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.resource, s.a), SOMA_STATUS_OK);
	drain_guard(s.resource);
	ck_assert_int_eq(soma_resource_allocate(s.resource, 1000, s.a, &other), SOMA_STATUS_OK);
	ck_assert_uint_eq(other.ptr, s.block.ptr);
	free_again(&s);
	snprintf(part, sizeof part, "it is at offset +0 of block 0x%llx", (unsigned long long)other.ptr);
	expect(&s, 1, "double-free", "freed before; no more is known of that block", part);
	ck_assert_int_eq(soma_resource_block_state(s.resource, other.id), SOMA_BLOCK_LIVE);
	ck_assert_int_eq(soma_resource_deallocate(s.resource, &other), SOMA_STATUS_OK);
	ck_assert_uint_eq(s.reports, 1);
	end(&s);
}
END_TEST

START_TEST(what_never_was_a_block_is_a_foreign_free)
{
	struct soma_block foreign = { .ptr = 4711 };
	struct soma_use use = { .size = sizeof use };
	struct scene s;

	begin(&s);
	ck_assert_int_eq(soma_resource_deallocate(s.resource, &foreign), SOMA_STATUS_INVALID_VALUE);
	expect(&s, 1, "foreign-free", "address 0x1267", "no block begins there");
	ck_assert_int_eq(soma_resource_prepare_use(s.resource, foreign.id, s.b, SOMA_ACCESS_READ, &use),
			 SOMA_STATUS_INVALID_VALUE);
	expect(&s, 2, "foreign-use", "it never was a block", "");
	end(&s);
}
END_TEST

/* ---- bytes ------------------------------------------------------------------------------ */

static void
expect_kept(struct soma_resource *resource, uint64_t retired, uint64_t quarantined, uint64_t condemned)
{
	struct soma_backend_guard_stats stats = guard_stats_of(resource);

	ck_assert_uint_eq(stats.retired_bytes, retired);
	ck_assert_uint_eq(stats.quarantined_bytes, quarantined);
	ck_assert_uint_eq(stats.condemned_bytes, condemned);
	ck_assert_uint_eq(ledger_of(resource).retired_bytes, retired + quarantined + condemned);
}

static enum soma_status
trim_nothing(struct soma_resource *resource)
{
	return soma_resource_trim_to(resource, UINT64_MAX);
}

/* Whoever never waits has this. */
START_TEST(reaping_takes_over_what_the_streams_of_a_guard_are_past)
{
	static const struct soma_backend_option small[] = { { "guard.on_error", "callback" },
							    { "guard.quarantine_max_block", "64K" } };
	enum soma_status (*const reaps[])(struct soma_resource *) = { soma_resource_reap_pending,
								      trim_nothing };

	for (int i = 0; i < 2; i++) {
		struct soma_resource *resource = open_guarded(small, 2);
		struct soma__backend *backend = soma__resource_backend(resource);
		struct soma_block block[2] = { { .size = sizeof *block }, { .size = sizeof *block } };
		uint64_t a;

		ck_assert_int_eq(soma_resource_stream_create(resource, 1, &a), SOMA_STATUS_OK);
		struct soma_backend_stream *on_a = soma__stream_find(&resource->terminal->streams, a)->handle;
		ck_assert_int_eq(soma_resource_allocate(resource, 1000, a, &block[0]), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_resource_allocate(resource, 1 << 20, a, &block[1]), SOMA_STATUS_OK);
		ck_assert_int_eq(backend->ops->fill8(backend->self, block[1].ptr, 7, 4096, on_a),
				 SOMA_STATUS_OK);
		ck_assert_int_eq(soma_resource_deallocate(resource, &block[0]), SOMA_STATUS_OK);
		ck_assert_int_eq(soma_resource_deallocate(resource, &block[1]), SOMA_STATUS_OK);
		ck_assert_int_eq(reaps[i](resource), SOMA_STATUS_OK);
		expect_kept(resource, (1 << 20) + 1000, 0, 0);
		ck_assert_int_eq(backend->ops->stream_step(backend->self, on_a, 100, NULL), SOMA_STATUS_OK);
		ck_assert_int_eq(reaps[i](resource), SOMA_STATUS_OK);
		/* What is too large for a quarantine is over. */
		expect_kept(resource, 0, 1000, 0);
		ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 1000);
		ck_assert_int_eq(soma_resource_block_state(resource, block[1].id), SOMA_BLOCK_FREED);
		soma_resource_release(resource);
	}
}
END_TEST

START_TEST(the_guard_counts_what_was_asked_for)
{
	struct scene s;
	struct soma_block damaged = { .size = sizeof damaged };

	begin(&s);
	expect_kept(s.resource, 1000, 0, 0);
	ck_assert_int_eq(soma_resource_allocate(s.resource, 77, s.a, &damaged), SOMA_STATUS_OK);
	((unsigned char *)(uintptr_t)damaged.ptr)[77] = 1;
	ck_assert_int_eq(soma_resource_deallocate(s.resource, &damaged), SOMA_STATUS_OK);
	expect_kept(s.resource, 1077, 0, 0);
	ck_assert_int_eq(soma_resource_stream_synchronize(s.resource, s.a), SOMA_STATUS_OK);
	expect_kept(s.resource, 0, 1000, 77);
	drain_guard(s.resource);
	expect_kept(s.resource, 0, 0, 77);
	end(&s);
}
END_TEST

/* A budget that is short by so many bytes makes the guard let go of so many, not of their redzones'. */
START_TEST(a_drain_keeps_bytes_that_were_asked_for)
{
	struct soma_resource *resource = open_guarded(quiet, 1);
	struct soma__backend *backend = soma__resource_backend(resource);
	struct soma_block blocks[4];

	for (int i = 0; i < 4; i++) {
		blocks[i] = (struct soma_block){ .size = sizeof blocks[i] };
		ck_assert_int_eq(soma_resource_allocate(resource, 100, 0, &blocks[i]), SOMA_STATUS_OK);
	}
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(soma_resource_deallocate(resource, &blocks[i]), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, 0), SOMA_STATUS_OK);
	expect_kept(resource, 0, 400, 0);
	ck_assert_int_eq(backend->ops->guard_drain(backend->self, 299), SOMA_STATUS_OK);
	expect_kept(resource, 0, 200, 0);
	soma_resource_release(resource);
}
END_TEST

START_TEST(a_mapped_block_is_gone_with_its_pages)
{
	struct soma_resource *resource = open_guarded(mapped, 2);
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_allocate(resource, 3 << 20, 0, &block), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, 0), SOMA_STATUS_OK);
	expect_kept(resource, 0, 0, 0);
	ck_assert_uint_eq(guard_stats_of(resource).quarantined_blocks, 1);
	drain_guard(resource);
	expect_kept(resource, 0, 0, 0);
	soma_resource_release(resource);
}
END_TEST

/* What the legacy stream was given after a blocking stream's latest work is not waited for with that one. */
START_TEST(waiting_for_a_blocking_stream_says_nothing_of_later_work_on_the_legacy_one)
{
	struct soma_resource *resource = open_guarded(quiet, 1);
	struct soma__backend *backend = soma__resource_backend(resource);
	struct soma_block block = { .size = sizeof block };
	uint64_t blocking, run, queued;

	ck_assert_int_eq(soma_resource_stream_create(resource, 0, &blocking), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_allocate(resource, 1000, 0, &block), SOMA_STATUS_OK);
	struct soma_backend_stream *legacy = soma__stream_find(&resource->terminal->streams, 0)->handle;
	ck_assert_int_eq(backend->ops->fill8(backend->self, block.ptr, 7, 1000, legacy), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_deallocate(resource, &block), SOMA_STATUS_OK);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, blocking), SOMA_STATUS_OK);
	ck_assert_int_eq(backend->ops->stream_position(backend->self, legacy, &queued, &run), SOMA_STATUS_OK);
	ck_assert_uint_lt(run, queued);
	ck_assert_uint_eq(guard_stats_of(resource).retired_blocks, 1);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, 0), SOMA_STATUS_OK);
	ck_assert_uint_eq(guard_stats_of(resource).retired_blocks, 0);
	ck_assert_uint_eq(guard_stats_of(resource).reports, 0);
	soma_resource_release(resource);
}
END_TEST

UNIT_MAIN("stack", reaping_takes_over_what_the_streams_of_a_guard_are_past,
	  waiting_for_a_blocking_stream_says_nothing_of_later_work_on_the_legacy_one,
	  misuse_of_a_retired_block_is_reported_once, misuse_of_a_quarantined_block_is_reported_once,
	  misuse_of_a_tombstone_is_reported_once, a_stale_name_is_not_taken_for_the_new_block_at_its_address,
	  what_never_was_a_block_is_a_foreign_free, the_guard_counts_what_was_asked_for,
	  a_drain_keeps_bytes_that_were_asked_for, a_mapped_block_is_gone_with_its_pages)
