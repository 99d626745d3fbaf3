/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache that gives way.  A program keeps results in device memory for as long as nobody needs the room: when
 * its budget is exhausted, soma asks it to let go of some, and tries again.  Tags say who holds what.
 *
 *   cc spill.c $(pkg-config --cflags --libs soma) && ./a.out
 */
#include <inttypes.h>
#include <soma/soma.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)
#define RESULTS 15 /* of 4 MiB; the budget is 64 MiB */

struct cache {
	struct soma_resource *memory;
	struct soma_block results[RESULTS];
	unsigned oldest, end;
};

static void
check(enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return;
	fprintf(stderr, "%s: %s\n", soma_status_name(status), soma_error_last()->text);
	exit(1);
}

/* The oldest results go.  What is freed counts until the stream is past it, so the stream is waited for. */
static bool
give_way(void *context, uint64_t bytes_needed, unsigned attempt)
{
	struct cache *cache = context;
	uint64_t given = 0;

	while (given < bytes_needed && cache->oldest < cache->end) {
		given += cache->results[cache->oldest].bytes;
		check(soma_resource_deallocate(cache->memory, &cache->results[cache->oldest++]));
	}
	printf("attempt %u: %" PRIu64 " MiB are missing, the cache gives %" PRIu64 "\n", attempt,
	       bytes_needed / MIB, given / MIB);
	return given > 0 && soma_resource_stream_synchronize(cache->memory, 0) == SOMA_STATUS_OK;
}

static bool
print_account(void *context, const struct soma_tag_account *account)
{
	(void)context;
	printf("  %-8s %2" PRIu64 " MiB in %" PRIu64 " block%s\n", soma_tag_name(account->tag),
	       account->live_bytes / MIB, account->live_count, account->live_count == 1 ? "" : "s");
	return true;
}

int
main(void)
{
	struct soma_block work = { .size = sizeof work }, more = { .size = sizeof more };
	struct soma_runtime *runtime;
	struct cache cache = { 0 };

	check(soma_runtime_open("budget=64M", &runtime));
	cache.memory = soma_runtime_resource(runtime);
	soma_resource_set_pressure_callback(cache.memory, give_way, &cache);

	soma_tag_push(soma_tag_intern("cache"));
	for (; cache.end < RESULTS; cache.end++)
		check(soma_resource_allocate(cache.memory, 4 * MIB, 0, &cache.results[cache.end]));
	soma_tag_pop();

	soma_tag_push(soma_tag_intern("work"));
	check(soma_resource_allocate(cache.memory, 20 * MIB, 0, &work));
	soma_resource_walk_tags(cache.memory, print_account, NULL);

	/* More than there can be, whatever the cache gives: the error says who has the memory. */
	if (soma_resource_allocate(cache.memory, 50 * MIB, 0, &more) == SOMA_STATUS_OUT_OF_BUDGET)
		printf("%s\n", soma_error_last()->text);
	soma_tag_pop();

	check(soma_resource_deallocate(cache.memory, &work));
	soma_runtime_release(runtime);
}
