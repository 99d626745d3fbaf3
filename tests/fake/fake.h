/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controls of the stand-in driver (libcuda.so.1 of tests/fake), for tests.
 *
 * The product finds the stand-in as it finds a driver, by LD_LIBRARY_PATH; a test that is not linked
 * with it gets these functions by fake_controls().  Nothing here needs the declarations of the
 * driver API: handles are void *, codes are int.
 *
 * Whole processes are set up by the environment, read when the library is first called:
 *   FAKE_CUDA_MODE=immediate|stepped|threads  FAKE_CUDA_SEED=N  FAKE_CUDA_DELAY=N
 *   FAKE_CUDA_DEVICES=N  FAKE_CUDA_MEMORY=BYTES (each)  FAKE_CUDA_POOLS=0  FAKE_CUDA_VMM=0
 *   FAKE_CUDA_VERSION=11010  FAKE_CUDA_INIT=CODE  FAKE_CUDA_HIDE=NAME[,NAME]
 *   FAKE_CUDA_FAIL=ENTRY:NTH:CODE[,...]  FAKE_CUDA_CHECK_SIGNALS=0  FAKE_CUDA_RECYCLE=0
 *   FAKE_CUDA_REPORT=stderr|FILE  findings and leaks, at exit
 *   FAKE_CUDA_EXIT=STATUS         the process ends with it when there were findings or leaks
 *
 * Any thread may call any of these, but the set-up of devices and the version come before cuInit,
 * and restart when nobody else is in the library.
 */
#ifndef SOMA_TESTS_FAKE_FAKE_H
#define SOMA_TESTS_FAKE_FAKE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_DEVICES_MAX 8

enum fake_mode {
	FAKE_IMMEDIATE = 0, /* work runs within the call that queues it, on its thread */
	FAKE_STEPPED = 1,   /* work runs when told, and when the host waits for it */
	FAKE_THREADS = 2,   /* a worker runs it, in an order drawn from the seed */
};

/* X(kind, what it means) */
#define FAKE_FINDINGS(X)                                                                            \
	X(STALE_HANDLE, "a handle that was destroyed, or never was one")                            \
	X(STALE_MEMORY, "work queued on memory that was freed before, or is none")                  \
	X(USE_BEFORE_ALLOC, "work ran before the allocation had been executed")                     \
	X(USE_AFTER_FREE, "work ran after the free had been executed")                              \
	X(UNORDERED_USE, "work queued that nothing orders after the allocation")                    \
	X(UNORDERED_FREE, "a free queued that nothing orders after a use, or after the allocation") \
	X(FREE_WITH_WORK, "memory freed at once while work on it was outstanding")                  \
	X(BAD_FREE, "a free of what is not allocated")                                              \
	X(OUT_OF_BOUNDS, "work that passes the end of its memory")                                  \
	X(NO_ACCESS, "work on memory that its device may not access, or not so")                    \
	X(LEAK, "something not given back")                                                         \
	X(IN_SIGNAL, "a call from a signal handler")                                                \
	X(IN_CALLBACK, "a call from a host callback")                                               \
	X(AFTER_FORK, "a call in a process forked after cuInit")                                    \
	X(AFTER_EXIT, "a call after the driver was gone")

enum fake_finding {
#define X(kind, text) FAKE_FOUND_##kind,
	FAKE_FINDINGS(X)
#undef X
	FAKE_FINDING_KINDS
};

enum fake_object {
	FAKE_STREAMS,
	FAKE_EVENTS,
	FAKE_POOLS, /* without the default ones */
	FAKE_MODULES,
	FAKE_GRAPHS,      /* and executable ones */
	FAKE_CONTEXTS,    /* retained primary ones, each time */
	FAKE_ALLOCATIONS, /* of cuMemAlloc and of pools, imports included */
	FAKE_HOST_ALLOCATIONS,
	FAKE_RESERVATIONS,
	FAKE_HANDLES, /* of cuMemCreate */
	FAKE_MAPPINGS,
	FAKE_OBJECTS
};

/* One use of memory by a kernel. */
struct fake_use {
	uint64_t address;
	uint64_t bytes;
	bool write;
};

/*
 * A kernel: what a function of that name in a module does.  A module has the function if its text
 * has `.entry NAME`.  `sizes`, ended by 0, are its parameters'; params[i] points to a copy of the i-th.
 * `uses`, called at the launch, says which memory it will use, up to `max`, and returns how many; NULL:
 * none.  `run` is called when the stream gets there.
 */
struct fake_kernel {
	const char *name;
	const size_t *sizes;
	void (*run)(void *const *params, unsigned blocks, unsigned threads);
	size_t (*uses)(void *const *params, struct fake_use *uses, size_t max);
};

/*
 * Kernels that are there from the start:
 *   soma_scan(u64 ranges, u32 count)   each range {u64 ptr, u64 bytes, u32 pattern, u32 reserved,
 *                                      u64 first_bad, u64 bad_count}: the byte at address a is compared with
 *                                      byte (a & 3) of pattern; answers go to first_bad (UINT64_MAX: none) and bad_count
 *   soma_fill(u64 ptr, u32 value, u64 count)   writes count words
 *   soma_touch(u64 ptr, u64 bytes, u32 value)  writes bytes
 *   soma_read(u64 ptr, u64 bytes)              reads
 */

/* X(result, name, arguments) */
#define FAKE_CONTROLS(X)                                                                                           \
	/* Everything as when the library was loaded, except for the environment: all objects are gone. */         \
	X(void, restart, (void))                                                                                   \
	/* How streams run; a delay is how many rounds of the worker an operation may wait. */                     \
	X(void, mode, (enum fake_mode mode, uint64_t seed, unsigned delay))                                        \
	/* Runs up to `count` operations of the stream, as far as that needs no other stream; how many ran. \
	 * NULL, 1 and 2 are the default streams of the calling thread and context. */      \
	X(uint64_t, step, (void *stream, uint64_t count))                                                          \
	/* One operation of a stream chosen by the seed; false: nothing can run. */                                \
	X(bool, step_any, (void))                                                                                  \
	X(void, run_all, (void))                                                                                   \
	X(uint64_t, pending, (void *stream))                                                                       \
	/* Set-up, before cuInit. */                                                                               \
	X(void, devices, (int count))                                                                              \
	X(void, device_memory, (int device, uint64_t bytes))                                                       \
	X(void, device_pools, (int device, bool supported))                                                        \
	X(void, device_vmm, (int device, bool supported))                                                          \
	X(void, device_peer, (int device, int peer, bool can))                                                     \
	X(void, driver_version, (int version))                                                                     \
	X(void, init_result, (int code))                                                                           \
	/* cuGetProcAddress gives a null pointer for it, with success; NULL: none is hidden any more. */           \
	X(void, hide, (const char *name))                                                                          \
	/* The nth call from now on of the entry (exported name; NULL: of any that can fail) fails with the code \
	 * and does nothing.  One such order an entry, and one for all; nth 0 takes it back. */ \
	X(bool, fail, (const char *entry, uint64_t nth, int code))                                                 \
	X(void, fail_none, (void))                                                                                 \
	/* How often it was called (NULL: all); whether the latest order has struck. */                            \
	X(uint64_t, calls, (const char *entry))                                                                    \
	X(uint64_t, failures, (void))                                                                              \
	/* Name of the i-th entry, NULL at the end. */                                                             \
	X(const char *, entry, (size_t i))                                                                         \
	/* Errors of a device's context: for ever; or once, for the next call. */                                  \
	X(void, sticky, (int device, int code))                                                                    \
	X(void, deferred, (int device, int code))                                                                  \
	/* The nth operation from now on that runs on the device leaves the error behind. */                       \
	X(void, fail_work, (int device, uint64_t nth, int code, bool sticky))                                      \
	/* See FAKE_DEFERRED_CALL_WORKS. */                                                                        \
	X(void, deferred_calls_work, (bool they_do))                                                               \
	/* What the checker found.  text may be NULL. */                                                           \
	X(size_t, findings, (void))                                                                                \
	X(size_t, findings_of, (enum fake_finding kind))                                                           \
	X(bool, finding, (size_t i, enum fake_finding * kind, char *text, size_t size))                            \
	X(void, findings_clear, (void))                                                                            \
	X(const char *, finding_name, (enum fake_finding kind))                                                    \
	/* How many there are now; and makes a finding of each that is left (no contexts). */                      \
	X(uint64_t, live, (enum fake_object object))                                                               \
	X(size_t, leaks, (void))                                                                                   \
	/* Bytes of the device that are taken. */                                                                  \
	X(uint64_t, device_taken, (int device))                                                                    \
	/* Handles of what was destroyed come back at once (true, as with the driver) or never. */                 \
	X(void, recycle, (bool they_do))                                                                           \
	/* Looking for signal handlers costs two system calls a call. */                                           \
	X(void, check_signals, (bool check))                                                                       \
	/* Copied; replaces one of the same name. */                                                               \
	X(void, kernel, (const struct fake_kernel *kernel))

/* clang-format off */
#define X(result, name, args) result fake_cuda_##name args;
FAKE_CONTROLS(X)
#undef X

struct fake_controls {
#define X(result, name, args) result (*name) args;
	FAKE_CONTROLS(X)
#undef X
};
/* clang-format on */

/* From the library that dlopen("libcuda.so.1") gave, or RTLD_DEFAULT; false: it is not the stand-in. */
static inline bool
fake_controls(void *library, struct fake_controls *controls)
{
	bool all = true;

#define X(result, name, args)                                           \
	*(void **)&controls->name = dlsym(library, "fake_cuda_" #name); \
	all = all && controls->name != NULL;
	FAKE_CONTROLS(X)
#undef X
	return all;
}

#endif
