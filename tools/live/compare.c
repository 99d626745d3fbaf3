/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stack counts, by each of those that count, against what it should.
 */
#include "tools/live/worker.h"

static void
check(struct live_difference *difference, const char *what, uint64_t got, uint64_t expected)
{
	if (got == expected || difference->happened)
		return;
	difference->happened = true;
	difference->what = what;
	difference->got = got;
	difference->expected = expected;
}

static void
check_guard(const struct stack *stack, const struct soma_ledger *ledger, struct live_difference *difference)
{
	struct soma_backend_guard_stats guard = stack_guard_stats(stack);

	if (!stack->guarded)
		return;
	check(difference, "the guard's live blocks", guard.live_blocks, ledger->live_count);
	check(difference, "the guard's freed bytes",
	      guard.retired_bytes + guard.quarantined_bytes + guard.condemned_bytes, ledger->retired_bytes);
}

void
live_compare(const struct stack *stack, const struct live_expected *expected, bool at_end, uint64_t event,
	     struct live_difference *difference)
{
	struct soma_ledger ledger = { .size = sizeof ledger };
	uint64_t outstanding = soma_resource_bytes_outstanding(stack->top);
	bool before = difference->happened;

	soma_resource_ledger(stack->top, &ledger);
	check(difference, "live bytes", ledger.live_bytes, expected->live_bytes);
	check(difference, "live blocks", ledger.live_count, expected->live_blocks);
	if (expected->over)
		check(difference, "freed bytes that are not gone", ledger.retired_bytes,
		      stack_guard_stats(stack).condemned_bytes);
	check(difference, "bytes outstanding", outstanding, expected->live_bytes + ledger.retired_bytes);
	if (stack->budget != NULL)
		check(difference, "bytes reserved of the budget", soma_budget_reserved(stack->budget),
		      outstanding);
	check_guard(stack, &ledger, difference);
	if (before == difference->happened)
		return;
	difference->at_end = at_end;
	difference->event = event;
}
