/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch recorder: the blocks that one piece of work uses, and on which stream.
 *
 *   struct soma_launch launch;
 *
 *   soma_launch_begin(&launch, resource, stream);
 *   soma_launch_read(&launch, weights.id);
 *   soma_launch_write(&launch, output.id);
 *   if (soma_launch_preflight(&launch) == SOMA_STATUS_OK) {
 *           ... queue the work on the stream ...
 *           soma_launch_commit(&launch);
 *   }
 *   soma_launch_abandon(&launch);
 *
 * A pool's blocks are named by soma_allocation_id(); the resource is the pool's, or another one of its stack.
 *
 * preflight makes the stream wait for what the work needs: a read for the last write, a write for the last
 * write and all reads since.  commit records the work, so that later uses, and the frees of these
 * blocks, wait for it.  The rules are those of soma_resource_prepare_use() and _finish_use().
 *
 * A launch is the caller's memory, on the stack as a rule, and is not copied.  With up to
 * SOMA_LAUNCH_INLINE different blocks nothing is allocated.
 *
 * Thread safety: a launch belongs to one thread at a time.  The resource, and the stream, must stay
 * until it is ended.
 *
 * Errors: as in <soma/resource.h>.
 *
 * Since 0.1.
 */
#ifndef SOMA_LAUNCH_H
#define SOMA_LAUNCH_H

#include <soma/resource.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define SOMA_LAUNCH_INLINE 32

/* Its fields are the library's. */
struct soma_launch {
	struct soma_resource *resource;
	uint64_t stream;
	uint32_t state;
	uint32_t count;
	uint32_t capacity;
	uint32_t slots;
	struct soma_use *uses; /* first, or allocated */
	uint32_t *index;
	uint64_t reserved[4];
	struct soma_use first[SOMA_LAUNCH_INLINE];
};

/*
 * Starts a launch on the stream; what was in *launch is not looked at.  STREAM_MISUSE: there is no such stream, or
 * the backend cannot keep an order between streams (soma_resource_supports_use_tracking()).
 * After an error there is nothing to end.
 */
enum soma_status soma_launch_begin(struct soma_launch *launch, struct soma_resource *resource,
				   uint64_t stream);

/*
 * The work reads, writes, or does both to the block.  A block may be named more than once: it
 * counts once, with all that was said of it.  Not after preflight.  After OUT_OF_HOST_MEMORY the block is not in it.
 */
enum soma_status soma_launch_read(struct soma_launch *launch, struct soma_block_id block);
enum soma_status soma_launch_write(struct soma_launch *launch, struct soma_block_id block);
enum soma_status soma_launch_read_write(struct soma_launch *launch, struct soma_block_id block);

/*
 * Queues the waits, of every block.  After an error the work should not be queued: soma_launch_use() says
 * which blocks it was about, and the result is the first such status.  USE_AFTER_FREE: a block was freed.
 * Waits that were queued stay, and do no harm.
 */
enum soma_status soma_launch_preflight(struct soma_launch *launch);

/*
 * After the work was queued.  Every block is recorded that can be; soma_launch_use() says which were not,
 * and the result is the first such status: the block was freed before (USE_AFTER_FREE), and nothing is
 * left to be kept track of.  What was queued without a preflight, or after one that failed, is recorded as well:
 * it waited for nothing, and a guard and a trace hear of it here, as of soma_resource_record_use().  When the
 * guard then objects (STREAM_MISUSE: an order is missing), the block is recorded all the same.
 * On SOMA_STATUS_OK the launch is ended.
 */
enum soma_status soma_launch_commit(struct soma_launch *launch);

/* Ends a launch in any state, also an ended one: nothing more is recorded. */
void soma_launch_abandon(struct soma_launch *launch);

/* How many different blocks, and one of them with its access and its status in the latest preflight or
 * commit.  Until the launch is ended; then there are none. */
size_t soma_launch_count(const struct soma_launch *launch);
const struct soma_use *soma_launch_use(const struct soma_launch *launch, size_t index);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
