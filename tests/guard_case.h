/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CASE(name) { ... } is a test that runs around each inner backend, with `f`, and `s`: three streams that do not block
 * on the legacy stream.  CASE_WITH(name, key, value, ...) opens the guard with options.
 */
#ifndef SOMA_TESTS_GUARD_CASE_H
#define SOMA_TESTS_GUARD_CASE_H

#include "tests/check_guard_support.h"
#include "tests/unit.h"

#define READ SOMA_BACKEND_ACCESS_READ
#define WRITE SOMA_BACKEND_ACCESS_WRITE
#define NON_BLOCKING SOMA_BACKEND_STREAM_NON_BLOCKING

struct streams {
	struct soma_backend_stream *a, *b, *c;
};

static inline void
run_case(void (*body)(struct fixture *f, struct streams s), const char *const *options)
{
	for (int kind = 0; kind < INNER_KINDS; kind++) {
		struct fixture f;
		fixture_open(&f, (enum inner_kind)kind, options);
		struct streams s = { make_stream(&f, NON_BLOCKING), make_stream(&f, NON_BLOCKING),
				     make_stream(&f, NON_BLOCKING) };
		body(&f, s);
		fixture_close(&f);
		fixture_forget_reports(&f);
	}
}

#define CASE_WITH(name, ...)                                                                     \
	static void name##_body(struct fixture *f, struct streams s);                            \
	START_TEST(name)                                                                         \
	{                                                                                        \
		run_case(name##_body, (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL }); \
	}                                                                                        \
	END_TEST                                                                                 \
	static void name##_body(struct fixture *f, __attribute__((unused)) struct streams s)
#define CASE(name) CASE_WITH(name)

#endif
