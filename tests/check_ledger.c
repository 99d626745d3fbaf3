/* SPDX-License-Identifier: Apache-2.0 */
/* lib/resource: the ledger's counts, block names, tags. */
#include <stdio.h>
#include <string.h>

#include "lib/resource/terminal.h"
#include "tests/check_resource_fake.h"
#include "tests/unit.h"

static struct soma_ledger
ledger_of(struct soma_resource *resource)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	ck_assert_int_eq(soma_resource_ledger(resource, &ledger), SOMA_STATUS_OK);
	return ledger;
}

START_TEST(a_block_is_what_was_asked_for)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_request request = {
		.size = sizeof request,
		.bytes = 1000,
		.alignment = 512,
		.tag = soma_tag_intern("kv"),
	};
	struct soma_block block = { .size = sizeof block };

	ck_assert_int_eq(soma_resource_materialize(resource, &request, &block), SOMA_STATUS_OK);
	ck_assert_uint_eq(block.bytes, 1000);
	ck_assert_uint_eq(block.alignment, 512);
	ck_assert_uint_eq(block.stream, 0);
	ck_assert_uint_eq(block.ptr, fake->blocks[0].ptr);
	ck_assert_str_eq(soma_tag_name(block.tag), "kv");
	ck_assert_int_eq(block.state, SOMA_BLOCK_LIVE);
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_LIVE);
	deallocate(resource, &block);
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_FREED);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(bad_requests_are_refused_with_a_reason)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_block block = { .size = sizeof block };
	struct soma_request zero = { .size = sizeof zero },
			    odd = { .size = sizeof odd, .bytes = 8, .alignment = 3 };
	struct soma_request tag = { .size = sizeof tag, .bytes = 8, .tag = 1u << 20 };

	ck_assert_int_eq(soma_resource_materialize(resource, &zero, &block), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "0 bytes"));
	ck_assert_int_eq(soma_resource_materialize(resource, &odd, &block), SOMA_STATUS_INVALID_VALUE);
	ck_assert_ptr_nonnull(strstr(soma_error_last()->text, "power of two"));
	ck_assert_int_eq(soma_resource_materialize(resource, &tag, &block), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_allocate(resource, 8, 77, &block), SOMA_STATUS_STREAM_MISUSE);
	block.size = 8;
	ck_assert_int_eq(soma_resource_allocate(resource, 8, 0, &block), SOMA_STATUS_INVALID_VALUE);
	ck_assert_uint_eq(fake_count(fake, FAKE_ALLOC), 0);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(live_and_retired_bytes_are_counted)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(FAKE_ORDERED, &resource);
	uint64_t stream;
	ck_assert_int_eq(soma_resource_stream_create(resource, 0, &stream), SOMA_STATUS_OK);
	struct soma_block a = allocate(resource, 100, stream), b = allocate(resource, 1000, stream);

	ck_assert_uint_eq(ledger_of(resource).live_bytes, 1100);
	ck_assert_uint_eq(ledger_of(resource).live_count, 2);
	deallocate(resource, &a);
	ck_assert_int_eq(soma_resource_block_state(resource, a.id), SOMA_BLOCK_RETIRED);
	ck_assert_uint_eq(ledger_of(resource).live_bytes, 1000);
	ck_assert_uint_eq(ledger_of(resource).retired_bytes, 100);
	ck_assert_uint_eq(ledger_of(resource).retired_count, 1);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 1100);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 1100);
	fake_run(fake, resource, stream);
	ck_assert_int_eq(soma_resource_reap_pending(resource), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 1000);
	ck_assert_int_eq(soma_resource_block_state(resource, a.id), SOMA_BLOCK_FREED);
	deallocate(resource, &b);
	ck_assert_int_eq(soma_resource_stream_synchronize(resource, stream), SOMA_STATUS_OK);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 0);
	ck_assert_uint_eq(ledger_of(resource).alloc_count, 2);
	ck_assert_uint_eq(ledger_of(resource).free_count, 2);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_stale_block_is_use_after_free_and_frees_nothing)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_block first = allocate(resource, 64, 0), second;

	deallocate(resource, &first);
	ck_assert_int_eq(soma_resource_deallocate(resource, &first), SOMA_STATUS_USE_AFTER_FREE);
	second = allocate(resource, 64, 0);
	ck_assert_uint_eq(second.ptr, first.ptr);
	ck_assert_uint_gt(second.id.generation, first.id.generation);
	ck_assert_int_eq(soma_resource_deallocate(resource, &first), SOMA_STATUS_USE_AFTER_FREE);
	ck_assert_uint_eq(soma_error_last()->generation, first.id.generation);
	ck_assert_int_eq(soma_resource_block_state(resource, second.id), SOMA_BLOCK_LIVE);
	ck_assert_uint_eq(soma_resource_bytes_outstanding(resource), 64);
	deallocate(resource, &second);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_foreign_block_is_invalid)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_block block = allocate(resource, 64, 0), wrong = block;

	wrong.id.handle = 0;
	ck_assert_int_eq(soma_resource_deallocate(resource, &wrong), SOMA_STATUS_INVALID_VALUE);
	wrong = block;
	wrong.id.handle += 5;
	ck_assert_int_eq(soma_resource_deallocate(resource, &wrong), SOMA_STATUS_INVALID_VALUE);
	wrong = block;
	wrong.id.generation += 1;
	ck_assert_int_eq(soma_resource_deallocate(resource, &wrong), SOMA_STATUS_INVALID_VALUE);
	wrong = block;
	wrong.ptr += 8;
	ck_assert_int_eq(soma_resource_deallocate(resource, &wrong), SOMA_STATUS_INVALID_VALUE);
	ck_assert_int_eq(soma_resource_block_state(resource, block.id), SOMA_BLOCK_LIVE);
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(generations_grow_for_one_thread)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	uint64_t last = 0;

	for (int i = 0; i < 5000; i++) {
		struct soma_block block = allocate(resource, 64 + 256 * (uint64_t)(i % 7), 0);
		ck_assert_uint_gt(block.id.generation, last);
		last = block.id.generation;
		deallocate(resource, &block);
	}
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- generations of threads that take turns ---- */

struct turns {
	struct soma_resource *resource;
	struct soma_block block;
};

static void *
take_a_turn(void *argument)
{
	struct turns *turns = argument;
	uint64_t last = turns->block.id.generation;

	deallocate(turns->resource, &turns->block);
	turns->block = allocate(turns->resource, 64, 0);
	ck_assert_uint_gt(turns->block.id.generation, last);
	return NULL;
}

START_TEST(generations_grow_at_an_address_whatever_thread_allocates)
{
	struct turns turns;
	struct soma_backend *fake = fake_create(0, &turns.resource);
	pthread_t thread;

	turns.block = allocate(turns.resource, 64, 0);
	for (int i = 0; i < 200; i++) {
		take_a_turn(&turns);
		ck_assert_int_eq(pthread_create(&thread, NULL, take_a_turn, &turns), 0);
		pthread_join(thread, NULL);
		ck_assert_uint_eq(turns.block.ptr, fake->blocks[0].ptr);
	}
	deallocate(turns.resource, &turns.block);
	soma_resource_release(turns.resource);
	fake_destroy(fake);
}
END_TEST

/* ---- tags ---- */

static bool
keep_account(void *context, const struct soma_tag_account *account)
{
	struct soma_tag_account *wanted = context;

	if (account->tag == wanted->tag)
		*wanted = *account;
	return true;
}

static struct soma_tag_account
account_of(struct soma_resource *resource, const char *name)
{
	struct soma_tag_account account = { .tag = soma_tag_intern(name) };

	soma_resource_walk_tags(resource, keep_account, &account);
	return account;
}

START_TEST(a_name_has_one_tag)
{
	uint32_t tag = soma_tag_intern("weights");

	ck_assert_uint_ne(tag, SOMA_TAG_NONE);
	ck_assert_uint_eq(soma_tag_intern("weights"), tag);
	ck_assert_uint_ne(soma_tag_intern("weight"), tag);
	ck_assert_str_eq(soma_tag_name(tag), "weights");
	ck_assert_uint_eq(soma_tag_intern(NULL), SOMA_TAG_NONE);
	ck_assert_uint_eq(soma_tag_intern(""), SOMA_TAG_NONE);
	ck_assert_str_eq(soma_tag_name(SOMA_TAG_NONE), "");
	ck_assert_str_eq(soma_tag_name(999), "");
}
END_TEST

START_TEST(too_many_names_become_the_overflow_tag)
{
	char name[32];
	uint32_t last = 0;

	for (int i = 0; i < 2 * SOMA_TAG_COUNT_MAX; i++) {
		snprintf(name, sizeof name, "name %d", i);
		last = soma_tag_intern(name);
		ck_assert_uint_lt(last, SOMA_TAG_COUNT_MAX);
	}
	ck_assert_uint_eq(last, SOMA_TAG_OVERFLOW);
	ck_assert_ptr_nonnull(strstr(soma_tag_name(last), "too many"));
	ck_assert_str_eq(soma_tag_name(soma_tag_intern("name 5")), "name 5");
}
END_TEST

START_TEST(a_long_name_is_cut_between_characters)
{
	char name[SOMA_TAG_NAME_MAX + 40];

	memset(name, 'x', sizeof name);
	memcpy(name + SOMA_TAG_NAME_MAX - 1, "\xc3\xa4", 2);
	name[sizeof name - 1] = '\0';
	const char *kept = soma_tag_name(soma_tag_intern(name));
	ck_assert_uint_eq(strlen(kept), SOMA_TAG_NAME_MAX - 1);
	ck_assert_int_eq(kept[SOMA_TAG_NAME_MAX - 2], 'x');
}
END_TEST

START_TEST(the_threads_stack_names_requests_without_a_tag)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_block blocks[4];
	struct soma_request own = { .size = sizeof own, .bytes = 8, .tag = soma_tag_intern("own") };

	blocks[0] = allocate(resource, 1, 0);
	soma_tag_push(soma_tag_intern("outer"));
	soma_tag_push(soma_tag_intern("inner"));
	blocks[1] = allocate(resource, 2, 0);
	blocks[3].size = sizeof blocks[3];
	ck_assert_int_eq(soma_resource_materialize(resource, &own, &blocks[3]), SOMA_STATUS_OK);
	soma_tag_pop();
	blocks[2] = allocate(resource, 4, 0);
	soma_tag_pop();
	soma_tag_pop();
	ck_assert_uint_eq(blocks[0].tag, SOMA_TAG_NONE);
	ck_assert_str_eq(soma_tag_name(blocks[1].tag), "inner");
	ck_assert_str_eq(soma_tag_name(blocks[2].tag), "outer");
	ck_assert_str_eq(soma_tag_name(blocks[3].tag), "own");
	ck_assert_uint_eq(account_of(resource, "inner").live_bytes, 2);
	ck_assert_uint_eq(account_of(resource, "own").live_count, 1);
	for (int i = 0; i < 4; i++)
		deallocate(resource, &blocks[i]);
	ck_assert_uint_eq(account_of(resource, "inner").live_bytes, 0);
	ck_assert_uint_eq(account_of(resource, "inner").alloc_count, 1);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_deep_stack_of_tags_comes_back)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);

	soma_tag_push(soma_tag_intern("bottom"));
	for (int i = 0; i < 200; i++)
		soma_tag_push(soma_tag_intern("deep"));
	for (int i = 0; i < 200; i++)
		soma_tag_pop();
	struct soma_block block = allocate(resource, 8, 0);
	ck_assert_str_eq(soma_tag_name(block.tag), "bottom");
	deallocate(resource, &block);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

START_TEST(a_blocks_tag_may_be_set_later)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_block block = allocate(resource, 100, 0);
	uint32_t late = soma_tag_intern("late");

	ck_assert_int_eq(soma_resource_set_tag(resource, block.id, late), SOMA_STATUS_OK);
	ck_assert_uint_eq(account_of(resource, "late").live_bytes, 100);
	ck_assert_uint_eq(account_of(resource, "").live_bytes, 0);
	ck_assert_int_eq(soma_resource_set_tag(resource, block.id, 5000), SOMA_STATUS_INVALID_VALUE);
	deallocate(resource, &block);
	ck_assert_uint_eq(account_of(resource, "late").live_bytes, 0);
	ck_assert_int_eq(soma_resource_set_tag(resource, block.id, late), SOMA_STATUS_USE_AFTER_FREE);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

/* ---- records ---- */

/* One thread allocates, others free: records wander and are used again. */
START_TEST(records_are_used_again)
{
	struct soma_resource *resource;
	struct soma_backend *fake = fake_create(0, &resource);
	struct soma_block blocks[1000];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 1000; i++)
			blocks[i] = allocate(resource, 64, 0);
		for (int i = 0; i < 1000; i++)
			deallocate(resource, &blocks[i]);
	}
	ck_assert_uint_le(atomic_load(&resource->terminal->ledger.carved), 1100);
	soma_resource_release(resource);
	fake_destroy(fake);
}
END_TEST

UNIT_MAIN("ledger", a_block_is_what_was_asked_for, bad_requests_are_refused_with_a_reason,
	  live_and_retired_bytes_are_counted, a_stale_block_is_use_after_free_and_frees_nothing,
	  a_foreign_block_is_invalid, generations_grow_for_one_thread,
	  generations_grow_at_an_address_whatever_thread_allocates, a_name_has_one_tag,
	  too_many_names_become_the_overflow_tag, a_long_name_is_cut_between_characters,
	  the_threads_stack_names_requests_without_a_tag, a_deep_stack_of_tags_comes_back,
	  a_blocks_tag_may_be_set_later, records_are_used_again)
