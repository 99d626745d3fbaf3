/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each holder, or each stream, allocated and holds: in all, now, at its own peak and at
 * the peak of all.
 *
 * Marking the peak of all costs nothing: an account keeps what it had then when it first
 * changes afterwards.
 */
#ifndef SOMA_TOOLS_ENGINE_ACCOUNT_H
#define SOMA_TOOLS_ENGINE_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

struct account {
	uint64_t key;                  /* a name's number, or a stream's handle */
	uint64_t allocs, frees, bytes; /* that are counted; the sum of bytes stops at UINT64_MAX */
	uint64_t live, live_bytes;     /* now */
	uint64_t most_bytes;           /* at its own peak */
	uint64_t most_event;
	uint64_t peak_live, peak_bytes;           /* at the peak of all; see accounts_finish() */
	uint64_t delays, delay_ns, delay_most_ns; /* of deferred frees that completed */
	uint64_t saved;                           /* the peak that peak_live and peak_bytes are of */
};

struct accounts {
	struct account *at;
	size_t count, room;
	uint64_t peak; /* how many were marked */
};

void accounts_fini(struct accounts *accounts);

/* Makes the accounts up to `index`, which are empty. */
struct account *accounts_need(struct accounts *accounts, size_t index);

/* A block of the index-th comes or goes.  counted: it is one of the trace's allocations, or frees; 0: it was
 * there before. */
void accounts_enter(struct accounts *accounts, size_t index, uint64_t bytes, uint64_t event,
		    uint64_t counted);
void accounts_leave(struct accounts *accounts, size_t index, uint64_t bytes, uint64_t counted);

/* A deferred free of it completed. */
void accounts_delay(struct accounts *accounts, size_t index, uint64_t ns);

/* Now is the peak of all. */
void accounts_mark_peak(struct accounts *accounts);

/* After the last event: leaves out those that never had a byte, and puts the rest in order: by
 * bytes, then by what they had at most. */
void accounts_finish(struct accounts *accounts);

/* a + b, or UINT64_MAX. */
uint64_t account_add(uint64_t a, uint64_t b);

#endif
