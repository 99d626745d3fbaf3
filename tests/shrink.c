/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinking; see shrink.h.  Every attempt is a run from scratch of a changed copy.
 */
#include "tests/shrink.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void *
shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

bool
survives(void (*work)(void *context), void *context, char *how, size_t room)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		work(context);
		exit(EXIT_SUCCESS);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	if (WIFSIGNALED(status))
		snprintf(how, room, "killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(how, room, "exit status %d", WEXITSTATUS(status));
	return status == 0;
}

struct trial {
	const struct sequence *sequence;
	const struct pair *pair;
	size_t at;
	bool equal;
	char difference[512];
};

static void
try_sequence(void *context)
{
	struct trial *trial = context;
	struct run run;
	bool equal = run_create(&run, trial->sequence, trial->pair);
	bool runs = equal && run.status == SOMA_STATUS_OK;

	for (size_t i = 0; runs && equal && i < trial->sequence->count; i++) {
		trial->at = i;
		equal = run_op(&run, &trial->sequence->ops[i]) && run_check(&run);
	}
	snprintf(trial->difference, sizeof trial->difference, "%s", run.difference);
	run_destroy(&run);
	trial->equal = equal;
}

bool
sequence_differs(const struct sequence *sequence, const struct pair *pair, size_t *at, char *difference,
		 size_t room)
{
	static struct trial *trial;
	char how[128];
	bool equal;

	if (trial == NULL)
		trial = shared_memory(sizeof *trial);
	*trial = (struct trial){ .sequence = sequence, .pair = pair };
	if (!survives(try_sequence, trial, how, sizeof how)) {
		trial->equal = false;
		memcpy(trial->difference, how, sizeof how);
	}
	equal = trial->equal;
	*at = trial->at;
	if (difference != NULL)
		snprintf(difference, room, "%s", trial->difference);
	return !equal;
}

/* Takes the attempt in place of the sequence when it still differs. */
static bool
attempt(struct sequence *sequence, const struct pair *pair, struct sequence *changed)
{
	size_t at;

	if (!sequence_differs(changed, pair, &at, NULL, 0)) {
		sequence_free(changed);
		return false;
	}
	if (changed->count > 0)
		changed->count = at + 1;
	sequence_free(sequence);
	*sequence = *changed;
	return true;
}

static bool
drop(struct sequence *sequence, const struct pair *pair, size_t start, size_t length)
{
	struct sequence changed;

	if (length > sequence->count - start)
		length = sequence->count - start;
	sequence_copy(&changed, sequence);
	memmove(changed.ops + start, changed.ops + start + length,
		(changed.count - start - length) * sizeof *changed.ops);
	changed.count -= length;
	return attempt(sequence, pair, &changed);
}

static bool
drop_chunks(struct sequence *sequence, const struct pair *pair)
{
	bool any = false;

	for (size_t length = sequence->count / 2 + 1; length > 0; length /= 2) {
		size_t start = 0;

		while (start < sequence->count) {
			if (drop(sequence, pair, start, length))
				any = true;
			else
				start += length;
		}
	}
	return any;
}

static bool
replace(struct sequence *sequence, const struct pair *pair, size_t i, struct op op)
{
	struct sequence changed;
	const struct op *now = &sequence->ops[i];

	if (op.size == now->size && op.stream == now->stream && op.back == now->back)
		return false;
	sequence_copy(&changed, sequence);
	changed.ops[i] = op;
	return attempt(sequence, pair, &changed);
}

/* Simpler values for one operation, each tried by itself. */
static bool
simplify_op(struct sequence *sequence, const struct pair *pair, size_t i)
{
	const uint64_t alignment = sequence->policy.alignment;
	const struct op op = sequence->ops[i];
	const uint64_t sizes[] = { alignment, 2 * alignment, op.size / 2 / alignment * alignment,
				   op.size / alignment * alignment };
	bool any = false;

	for (unsigned n = 0; n < sizeof sizes / sizeof sizes[0] && !any; n++) {
		struct op simpler = op;

		simpler.size = sizes[n];
		any = op.kind == OP_ALLOC && sizes[n] > 0 && sizes[n] < op.size &&
		      replace(sequence, pair, i, simpler);
	}
	if (i < sequence->count && op.stream != 0) {
		struct op simpler = sequence->ops[i];

		simpler.stream = 0;
		any = replace(sequence, pair, i, simpler) || any;
	}
	if (i < sequence->count && sequence->ops[i].back != 0) {
		struct op simpler = sequence->ops[i];

		simpler.back = simpler.back > 1 ? simpler.back / 2 : 0;
		any = replace(sequence, pair, i, simpler) || any;
	}
	return any;
}

#define SIMPLIFICATIONS 18

/* What goes with per_stream and the best fit only. */
static void
drop_cache(struct soma_policy *policy)
{
	policy->oversize = policy->oversize_slack = policy->collect_above = 0;
}

static void
simplify_limits(struct sequence *s, unsigned n)
{
	if (n < 4)
		s->policy.reuse &= ~(1U << n);
	else if (n == 4)
		s->policy.batch = 0;
	else if (n == 5)
		s->policy.batch_above = 0;
	else if (n == 6)
		s->policy.release_on_failure = false;
	else if (n == 7 && s->policy.fit != SOMA_FIT_GOOD) {
		s->policy.fit = SOMA_FIT_GOOD;
		drop_cache(&s->policy);
	} else if (n == 8)
		s->policy.pools[0].split_min = s->policy.pools[1].split_min = 1;
	else if (n == 9)
		s->limits.max_pool_size = 0;
	else if (n == 10)
		s->limits.release_threshold = 0;
	else if (n == 11)
		s->limits.base = 0;
	else if (n == 12)
		s->refuse_every = 0;
	else if (n == 13 && s->policy.per_stream) {
		s->policy.per_stream = false;
		drop_cache(&s->policy);
	} else if (n == 14 && s->policy.pool_count == 2)
		s->policy.pools[--s->policy.pool_count - 1] = s->policy.pools[1];
	else if (n == 15)
		s->limits.max_pool_size -= s->limits.max_pool_size % s->policy.alignment;
	else if (n == 16)
		s->policy.oversize = s->policy.oversize_slack = 0;
	else if (n == 17)
		s->policy.collect_above = 0;
}

static bool
simplify_policy(struct sequence *sequence, const struct pair *pair)
{
	bool any = false;

	for (unsigned n = 0; n < SIMPLIFICATIONS; n++) {
		struct sequence changed;
		bool same;

		sequence_copy(&changed, sequence);
		simplify_limits(&changed, n);
		same = memcmp(&changed.policy, &sequence->policy, sizeof changed.policy) == 0 &&
		       memcmp(&changed.limits, &sequence->limits, sizeof changed.limits) == 0 &&
		       changed.refuse_every == sequence->refuse_every;
		if (same)
			sequence_free(&changed);
		else if (attempt(sequence, pair, &changed))
			any = true;
	}
	return any;
}

void
sequence_shrink(struct sequence *sequence, const struct pair *pair)
{
	bool any = true;

	drop(sequence, pair, sequence->count, 0);
	while (any) {
		any = drop_chunks(sequence, pair);
		any = simplify_policy(sequence, pair) || any;
		for (size_t i = 0; i < sequence->count; i++)
			while (i < sequence->count && simplify_op(sequence, pair, i))
				any = true;
	}
}
