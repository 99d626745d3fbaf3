/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts by index.  Sizes come from a file: what live blocks sum up to may wrap in a
 * trace that no machine made, and must not trap.
 */
#include "tools/engine/account.h"

#include <stdlib.h>
#include <string.h>

#include "tools/xalloc.h"

void
accounts_fini(struct accounts *accounts)
{
	free(accounts->at);
	*accounts = (struct accounts){ 0 };
}

uint64_t
account_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

struct account *
accounts_need(struct accounts *accounts, size_t index)
{
	size_t room = accounts->room;

	if (index >= room) {
		while (index >= room)
			room = room > 0 ? 2 * room : 64;
		accounts->at = xreallocarray(accounts->at, room, sizeof *accounts->at);
		memset(&accounts->at[accounts->room], 0, (room - accounts->room) * sizeof *accounts->at);
		accounts->room = room;
	}
	if (index >= accounts->count)
		accounts->count = index + 1;
	return &accounts->at[index];
}

/* Before it changes: what it had at the peak. */
static struct account *
touch(struct accounts *accounts, size_t index)
{
	struct account *account = accounts_need(accounts, index);

	if (account->saved != accounts->peak) {
		account->peak_live = account->live;
		account->peak_bytes = account->live_bytes;
		account->saved = accounts->peak;
	}
	return account;
}

void
accounts_enter(struct accounts *accounts, size_t index, uint64_t bytes, uint64_t event, uint64_t counted)
{
	struct account *account = touch(accounts, index);

	account->allocs += counted;
	account->bytes = account_add(account->bytes, counted > 0 ? bytes : 0);
	account->live++;
	account->live_bytes += bytes;
	if (account->live_bytes > account->most_bytes) {
		account->most_bytes = account->live_bytes;
		account->most_event = event;
	}
}

void
accounts_leave(struct accounts *accounts, size_t index, uint64_t bytes, uint64_t counted)
{
	struct account *account = touch(accounts, index);

	account->frees += counted;
	account->live--;
	account->live_bytes -= bytes;
}

void
accounts_delay(struct accounts *accounts, size_t index, uint64_t ns)
{
	struct account *account = &accounts->at[index];

	account->delays++;
	account->delay_ns = account_add(account->delay_ns, ns);
	if (ns > account->delay_most_ns)
		account->delay_most_ns = ns;
}

void
accounts_mark_peak(struct accounts *accounts)
{
	accounts->peak++;
}

/* Ties are in the order of keys, so that a report is the same every time. */
static int
bigger_first(const void *left, const void *right)
{
	const struct account *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	if (a->most_bytes != b->most_bytes)
		return a->most_bytes > b->most_bytes ? -1 : 1;
	return a->key < b->key ? -1 : a->key > b->key;
}

void
accounts_finish(struct accounts *accounts)
{
	size_t kept = 0;

	for (size_t i = 0; i < accounts->count; i++) {
		touch(accounts, i);
		if (accounts->at[i].bytes > 0 || accounts->at[i].most_bytes > 0)
			accounts->at[kept++] = accounts->at[i];
	}
	accounts->count = kept;
	if (kept > 0)
		qsort(accounts->at, kept, sizeof *accounts->at, bigger_first);
}
