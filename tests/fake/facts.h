/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in had to decide because nobody has measured it on a GPU yet, or because the
 * documentation leaves it open.  One constant each; what the probe of tests/gpu finds goes in
 * here, and the tests that depend on a constant use it by its name.
 */
#ifndef SOMA_TESTS_FAKE_FACTS_H
#define SOMA_TESTS_FAKE_FACTS_H

/* ---- sizes and addresses ---- */

/* What cuMemAllocAsync and cuMemAllocFromPoolAsync say to size 0.  (cuMemAlloc: documented.) */
#define FAKE_ASYNC_SIZE_0 CUDA_ERROR_INVALID_VALUE

/* What cuMemFreeAsync and cuMemFree say to address 0. */
#define FAKE_FREE_ASYNC_NULL CUDA_SUCCESS
#define FAKE_FREE_NULL CUDA_SUCCESS

/* Blocks start at multiples of this and their sizes are rounded up to it.  Seen by users. */
#define FAKE_ALIGNMENT 512u

/* USED counts what was asked for (0) or what it was rounded up to (1).  Seen by users: 0. */
#define FAKE_USED_IS_ROUNDED 0

/* RESERVED of a pool grows by multiples of this.  Seen by users: 32 MiB. */
#define FAKE_RESERVE_STEP ((uint64_t)32 << 20)

/* The same for cuMemAlloc: small blocks share a mapping of this size. */
#define FAKE_SYNC_STEP ((uint64_t)2 << 20)

/* A block is split if what remains is at least this. */
#define FAKE_SPLIT_MIN FAKE_ALIGNMENT

/* The maximal size of a pool is taken as it is (0) or rounded up to FAKE_RESERVE_STEP (1). */
#define FAKE_MAX_SIZE_IS_ROUNDED 0

/* cuMemGetAllocationGranularity, minimal and recommended. */
#define FAKE_GRANULARITY ((uint64_t)2 << 20)

/* ---- when things happen ---- */

/* USED falls when cuMemFreeAsync is called (1), or when the stream gets there (0). */
#define FAKE_USED_FALLS_AT_CALL 1

/* A query that answers "done" counts as the host's having seen it, for the reuse of blocks
 * (rule 2), and makes pools release what is above their threshold. */
#define FAKE_QUERY_OBSERVES 1
#define FAKE_QUERY_RELEASES 0

/* cuMemPoolTrimTo releases memory whose free has executed, unseen by the host. */
#define FAKE_TRIM_RELEASES_UNOBSERVED 0

/* Growing that fails is tried again after the pool's own idle segments were released. */
#define FAKE_FAILED_GROWTH_RELEASES 1

/* cuMemFree of what cuMemAlloc gave waits for all work of the device first (and the checker
 * reports work that was outstanding). */
#define FAKE_FREE_WAITS 1

/* ---- errors ---- */

/* A call that answers with an error of earlier work has done what it was called for (1) or
 * nothing (0).  fake_cuda_deferred_calls_work() sets it at run time; those that wait
 * have waited in any case. */
#define FAKE_DEFERRED_CALL_WORKS 0

/* Destroying a device's default pool. */
#define FAKE_DESTROY_DEFAULT_POOL CUDA_ERROR_INVALID_VALUE

/* cuMemFreeAsync of memory that is of no pool. */
#define FAKE_FREE_ASYNC_OF_OTHER CUDA_ERROR_INVALID_VALUE

/* A freed or unknown handle.  The driver may also crash. */
#define FAKE_STALE_HANDLE CUDA_ERROR_INVALID_HANDLE

/* A call from within a host callback, and from a signal handler (which the driver does not
 * notice: it may deadlock). */
#define FAKE_CALL_IN_CALLBACK CUDA_ERROR_NOT_PERMITTED
#define FAKE_CALL_IN_SIGNAL CUDA_ERROR_NOT_PERMITTED

/* Any call of a process that was forked after cuInit. */
#define FAKE_CALL_AFTER_FORK CUDA_ERROR_NOT_INITIALIZED

/* Allocating from an imported pool. */
#define FAKE_ALLOC_FROM_IMPORT CUDA_ERROR_INVALID_VALUE

#endif
