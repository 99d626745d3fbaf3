/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes and the detail of the last error.
 *
 * Every soma function that can fail returns an enum soma_status.  Outputs are
 * written only on SOMA_STATUS_OK.  The function that first meets an error also
 * records its detail for the calling thread; soma_error_last() reads it.
 *
 * Thread safety: everything here may be called from any thread; the detail is
 * thread-local.  Nothing here allocates.
 *
 * Since 0.1.
 */
#ifndef SOMA_STATUS_H
#define SOMA_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* X(name, value, text).  Values are part of the ABI: append only. */
#define SOMA_STATUS_MAP(X)                                                     \
	X(OK, 0, "success")                                                    \
	X(INVALID_VALUE, 1, "invalid value")                                   \
	X(OUT_OF_DEVICE_MEMORY, 2, "out of device memory")                     \
	X(OUT_OF_HOST_MEMORY, 3, "out of host memory")                         \
	X(OUT_OF_BUDGET, 4, "out of budget")                                   \
	X(DRIVER, 5, "driver error")                                           \
	X(STREAM_MISUSE, 6, "stream misuse")                                   \
	X(USE_AFTER_FREE, 7, "use after free")                                 \
	X(OUT_OF_BOUNDS, 8, "out of bounds")                                   \
	X(NOT_SUPPORTED, 9, "not supported")                                   \
	X(NOT_FOUND, 10, "not found")                                          \
	X(ABI, 11, "incompatible binary interface")                            \
	X(PARSE, 12, "malformed input")                                        \
	X(IO, 13, "input or output error")

enum soma_status {
#define SOMA__X(name, value, text) SOMA_STATUS_##name = value,
	SOMA_STATUS_MAP(SOMA__X)
#undef SOMA__X
};

/* "OUT_OF_BUDGET" and "out of budget".  A value that is no status gives
 * "UNKNOWN" and "unknown status".  The strings are static. */
const char *soma_status_name(enum soma_status status);
const char *soma_status_text(enum soma_status status);

/*
 * What is known of an error.  All sizes are bytes; a field that has no meaning
 * for the error is 0.
 */
struct soma_error {
	enum soma_status status;
	int driver_code;     /* the driver's own code, where it was the driver that refused */
	uint64_t requested;  /* bytes asked for */
	uint64_t current;    /* bytes in use (or reserved) when it was refused */
	uint64_t remaining;  /* bytes that were left, saturating at 0 */
	uint64_t limit;      /* the limit that was met */
	uint64_t generation; /* of the block concerned */
	const char *text;    /* one sentence, never NULL */
	/* Of a budget that has no room. */
	uint64_t promised; /* not in `current`: what reservations hold, and the request's own pressure */
	uint64_t retired;  /* in `current`: was freed, and counts until its stream is past that */
};

/*
 * The detail of the last error recorded by a soma function on this thread;
 * {OK, ..., "success"} when there was none.  A successful call does not clear
 * it.  The text is formatted by this call; the result stays valid until the
 * next soma call on this thread.
 */
const struct soma_error *soma_error_last(void);

/* Forgets the detail. */
void soma_error_clear(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
