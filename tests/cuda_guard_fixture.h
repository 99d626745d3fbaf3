/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard around async and sync: its reports, kept, and cases that run around each, with scans and with copies.
 * Work is the driver's fills, which know nothing of the guard.
 */
#ifndef SOMA_TESTS_CUDA_GUARD_FIXTURE_H
#define SOMA_TESTS_CUDA_GUARD_FIXTURE_H

#include "tests/cuda_fixture.h"

/* What reads debug information has thread-local storage, which LeakSanitizer of gcc 12 does not survive in what
 * dlopen loads. */
#define NO_STACKS                      \
	{                              \
		"guard.backtrace", "0" \
	}

static bool is_async;

#define FAILED(...) ck_abort_msg(__VA_ARGS__)
#include "tests/guard_words.h"

static inline void
open_guard(const char *name, const char *key, const char *value)
{
	const struct soma_backend_option options[] = {
		{ "guard.on_error", "callback" }, { "guard.race", "strict" }, NO_STACKS, { key, value }
	};

	is_async = strstr(name, "async") != NULL;
	OK(try_open(name, options, key != NULL ? 4 : 3));
	begin_listening();
}

static inline void
run_case(void (*body)(void), enum fake_mode mode, const char *key, const char *value)
{
	static const char *const names[] = { "guard:async", "guard:sync" };

	start_fake();
	for (int i = 0; i < 4; i++) {
		fake.restart();
		fake.check_signals(false);
		fake.mode(mode, 1, 0);
		/* The second time round without the kernel, by copies. */
		if (i >= 2)
			ck_assert(fake.fail("cuModuleLoadData", 1, 221));
		open_guard(names[i % 2], key, value);
		ck_assert_int_eq((query().capabilities & SOMA_BACKEND_SCANS) != 0, i < 2);
		body();
		close_backend();
	}
}

#define CASE_IN(mode, name, key, value)                  \
	static void name##_body(void);                   \
	START_TEST(name)                                 \
	{                                                \
		run_case(name##_body, mode, key, value); \
	}                                                \
	END_TEST                                         \
	static void name##_body(void)
#define CASE(name) CASE_IN(FAKE_STEPPED, name, NULL, NULL)

static inline void
poke(uint64_t at, struct soma_backend_stream *stream)
{
	OK(ops->fill8(self, at, 7, 1, stream));
}

#endif
