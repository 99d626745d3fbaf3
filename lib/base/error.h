/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording the detail of an error.  The first function that names an error
 * records it; callers pass the status on.  Nothing is formatted here: the format
 * and up to four integers are kept until soma_error_last() asks for the text.
 * Thread-local, no locks, no allocation.
 */
#ifndef SOMA_LIB_BASE_ERROR_H
#define SOMA_LIB_BASE_ERROR_H

#include <inttypes.h>
#include <stdbool.h>

#include <soma/status.h>

/* Of a text, with its end. */
#define SOMA__ERROR_TEXT_MAX 512

/*
 * Records an error and returns `status`.  `format` must be a string literal whose
 * conversions are only PRIu64, PRIx64 and PRId64 for the arguments in order, and
 * at most one "%s", which must come first and takes `name` (copied, cut at 95
 * bytes).
 */
struct soma__error_args {
	const char *name;
	uint64_t arg[4];
	bool sizes; /* the arguments are bytes, and each has a "%s" in the format, which has nothing else */
};

enum soma_status soma__error(enum soma_status status, const char *format, struct soma__error_args args);

/* soma__error() with integers only: soma__fail(INVALID_VALUE, "size %" PRIu64, size) */
#define soma__fail(code, format, ...) \
	soma__error(SOMA_STATUS_##code, format, (struct soma__error_args){ .arg = { __VA_ARGS__ } })

/* The same with sizes, which are written as soma__size_exact() does:
 * soma__fail_sizes(OUT_OF_BUDGET, "%s of %s", used, limit) */
#define soma__fail_sizes(code, format, ...) \
	soma__error(SOMA_STATUS_##code, format, (struct soma__error_args){ .arg = { __VA_ARGS__ }, .sizes = true })

/* Records a text that is made at once: for rare errors with more than one name in
 * them.  Cut at SOMA__ERROR_TEXT_MAX. */
enum soma_status soma__error_text(enum soma_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* How many errors this thread has recorded: tells whether a callback did. */
uint64_t soma__error_serial(void);

/* The quantities of the error just recorded on this thread. */
void soma__error_sizes(uint64_t requested, uint64_t current, uint64_t remaining, uint64_t limit);
void soma__error_held(uint64_t promised, uint64_t retired);
void soma__error_driver(int driver_code);
void soma__error_generation(uint64_t generation);

#endif
