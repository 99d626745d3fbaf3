/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the entry points of all frameworks share: one runtime and one pool a device, made as SOMA_CONF says by the
 * first call that needs them; streams by the driver's handle; blocks by their address.
 *
 * Each module has this in itself, so its pools and blocks are its own; the runtime of a device is the process's.
 * Only <soma/soma.h> is used.  Everything may be called by any thread.  In a process that was forked after the
 * first call nothing is allocated, and frees do nothing: the memory is the parent's.
 */
#ifndef SOMA_FRAMEWORKS_FRAMEWORK_H
#define SOMA_FRAMEWORKS_FRAMEWORK_H

#include <soma/soma.h>

struct framework_device {
	struct framework_device *next;
	int number;
	struct soma_runtime *runtime;
	struct soma_pool *pool;
};

struct framework_block {
	uint64_t ptr; /* 0: no block */
	struct soma_allocation *allocation;
	struct framework_device *device;
	uint64_t *uses; /* soma's ids of other streams that were recorded; malloc's */
	uint32_t use_count;
};

/*
 * native: the driver's handle of the stream; 0 is the legacy default stream.  take: NULL for 0 bytes, and when it
 * failed; framework_error() says why.  give: NULL is allowed; what is no block of this module's is said on
 * standard error and left alone.
 */
void *framework_take(int device, uint64_t bytes, uint64_t native);
void framework_give(void *ptr, uint64_t native);

/* The block's free will wait for what is queued on this stream then. */
void framework_record(void *ptr, uint64_t native);

/* Gives back free memory, of every device. */
void framework_trim(void);

/* Writes the traces to their ends; 0, or -1. */
int framework_flush(void);

/* As snprintf: how long the JSON object is, or -1: framework_error() says why. */
int framework_stats(int device, char *json, size_t size);

/* Of the calling thread's latest failure; what succeeded since does not change it.  Valid until the thread's next
 * failure.  "success": it has had none. */
const char *framework_error(void);

/* One line on standard error, of the first few; frameworks have no way to hand it on. */
void framework_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- blocks.c: the table ---------------------------------------------------------------- */

/* False: no memory. */
bool framework_blocks_add(const struct framework_block *block);
/* A copy, whose `uses` is the caller's to free; false: there is none. */
bool framework_blocks_remove(uint64_t ptr, struct framework_block *block);
/* Notes the stream once.  False: no block there, or no memory. */
bool framework_blocks_use(uint64_t ptr, uint64_t stream);
/* The block's device; NULL: there is none. */
struct framework_device *framework_blocks_device(uint64_t ptr);

#endif
