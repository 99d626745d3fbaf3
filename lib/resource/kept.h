/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freed blocks that a backend keeps (a guard's quarantine), by address, until it says that it has
 * let go of them.
 *
 * It may say so before free has returned, on any thread; and the address may then be given out
 * and freed again while the first free is still returning.  So an address may be here more
 * than once, oldest first.  Such an early release is told to the traces at once, for the same reason;
 * the record is completed by who comes second, the freeing thread or the telling one.
 * Any thread; a shard's mutex is held over nothing else.
 */
#ifndef SOMA_LIB_RESOURCE_KEPT_H
#define SOMA_LIB_RESOURCE_KEPT_H

#include <pthread.h>

#include "lib/resource/ledger.h"

#define SOMA__KEPT_SHARDS 16u
#define SOMA__KEPT_BUCKETS 256u /* of each shard */

struct soma__kept_shard {
	pthread_mutex_t mutex;
	struct soma__record *buckets[SOMA__KEPT_BUCKETS];
};

struct soma__kept {
	struct soma__kept_shard *shards; /* NULL: the backend keeps nothing */
};

enum soma_status soma__kept_init(struct soma__kept *kept, struct soma__arena *arena);
void soma__kept_fini(struct soma__kept *kept);

/* Before free is called. */
void soma__kept_add(struct soma__kept *kept, struct soma__record *record);

/* free has returned.  failed: it has not freed.  True: the record is the caller's, because free failed or
 * because it was released, and that told, already. */
bool soma__kept_through(struct soma__kept *kept, struct soma__record *record, bool failed);

/* The backend let go of this address: the record, which is the caller's to complete; `early`: only to tell
 * of, up to soma__kept_told(). */
struct soma__record *soma__kept_release(struct soma__kept *kept, uint64_t ptr, bool *early);

/* True: free has returned meanwhile, and the record is the caller's. */
bool soma__kept_told(struct soma__kept *kept, struct soma__record *record);

/* Bytes of kept blocks that are charged to this tenant. */
uint64_t soma__kept_of(struct soma__kept *kept, const struct soma__account *tenant);

#endif
