/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that run a sequence share; for nobody else.
 */
#ifndef SOMA_TESTS_SEQUENCE_STATE_H
#define SOMA_TESTS_SEQUENCE_STATE_H

#include "tests/sequence.h"

/* Both engines, and an operation of one. */
#define EACH(i) for (unsigned i = 0; i < 2; i++)
#define CALL(i, function, ...) run->pair->engine[i]->function(run->handle[i], __VA_ARGS__)

/* tests/sequence_list.c: the memory with room for `count` elements; it ends the process without. */
void *sequence_grown(void *memory, size_t count, size_t size);

/* tests/sequence.c: the stream of a label; false: that was never made. */
bool run_stream_of(const struct run *run, unsigned label, uint64_t *stream);

/* tests/sequence_same.c: true when the engines answered the same; else run->difference says in what they do not. */
bool run_same(struct run *run, const char *what, uint64_t a, uint64_t b);
bool run_same_stats(struct run *run);

/* Of one operation; it is run->status from then on. */
bool run_same_status(struct run *run, const enum soma_status status[2]);

/* Says in what; false. */
__attribute__((format(printf, 2, 3))) bool run_differs(struct run *run, const char *format, ...);

#endif
