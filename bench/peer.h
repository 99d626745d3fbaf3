/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One peer of `make bench`: an executable of its own, so that no allocator disturbs
 * another one's process.  bench/peer.c is its main; a peer_<name> file has this.
 */
#ifndef SOMA_BENCH_PEER_H
#define SOMA_BENCH_PEER_H

#include "bench/workload.h"

#ifdef __cplusplus
extern "C" {
#endif

struct peer_options {
	const char *variant; /* of the peer's own; "" is its plain form */
	unsigned streams;
};

/* Ends the process (peer_fail) when it cannot. */
void peer_open(const struct peer_options *options, struct bench_allocator *allocator);

__attribute__((noreturn, format(printf, 1, 2))) void peer_fail(const char *format, ...);

/* Resident bytes of the process. */
uint64_t peer_resident(void *context);

#ifdef __cplusplus
}
#endif
#endif
