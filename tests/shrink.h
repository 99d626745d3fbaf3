/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a sequence on which two engines differ short enough to be read: operations
 * are dropped, values and the policy made simpler, as long as they still differ.
 */
#ifndef SOMA_TESTS_SHRINK_H
#define SOMA_TESTS_SHRINK_H

#include "tests/sequence.h"

/* Calls work in a child process, so that a crash is an answer too.  False: it did not
 * come to its end, and `how` says what became of it.  What it writes to memory is lost,
 * unless that is from shared_memory(). */
bool survives(void (*work)(void *context), void *context, char *how, size_t room);
void *shared_memory(size_t size);

/* Runs it from scratch, in a child, checking everything after every operation.  True when
 * the engines differ: after operation *at, in what `difference` says. */
bool sequence_differs(const struct sequence *sequence, const struct pair *pair, size_t *at, char *difference,
		      size_t room);

/* The sequence must differ; it still does afterwards, at its last operation. */
void sequence_shrink(struct sequence *sequence, const struct pair *pair);

#endif
