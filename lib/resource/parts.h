/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts: what a pool cuts out of a block, as names that uses can be recorded of.  A part is a record like a
 * block's, with a generation and accesses; but it is in no account, no backend and no trace knows of it, and it ends
 * only here.  Its owner keeps it from being ended twice, and the block and the resource until it has ended.
 */
#ifndef SOMA_LIB_RESOURCE_PARTS_H
#define SOMA_LIB_RESOURCE_PARTS_H

#include <soma/resource.h>

/* A new one.  What its memory may be used after is the stream's work until now: that counts as the first write. */
enum soma_status soma__part_begin(struct soma_resource *resource, uint64_t ptr, uint64_t bytes,
				  uint64_t stream, struct soma_block_id *id);

/*
 * The first half of a part's end: no use is recorded any more, and the stream waits for all that were; NULL: in no
 * order.  Where that cannot be queued the host waits.  After an error it is as before; else one of these follows.
 */
enum soma_status soma__part_leave(struct soma_resource *resource, struct soma_block_id id,
				  const uint64_t *stream);
void soma__part_end(struct soma_resource *resource, struct soma_block_id id);
void soma__part_stay(struct soma_resource *resource, struct soma_block_id id);

#endif
