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

#define SEEN_MAX 64
#define READ SOMA_BACKEND_ACCESS_READ
#define WRITE SOMA_BACKEND_ACCESS_WRITE

static char seen[SEEN_MAX][32], last_text[8192];
static unsigned seen_count;
static struct soma_backend_stream *a, *b, *c;
static bool is_async;

static inline void
note(void *context, const struct soma_backend_guard_report *report)
{
	(void)context;
	if (seen_count < SEEN_MAX)
		snprintf(seen[seen_count++], sizeof seen[0], "%s", report->kind);
	snprintf(last_text, sizeof last_text, "%s", report->text);
}

static inline void
expect(const char *const *kinds, int line)
{
	unsigned i = 0;

	for (; kinds[i] != NULL; i++)
		ck_assert_msg(i < seen_count && strcmp(seen[i], kinds[i]) == 0,
			      "line %d: report %u is %s, not %s", line, i,
			      i < seen_count ? seen[i] : "missing", kinds[i]);
	ck_assert_msg(i == seen_count, "line %d: there is a report %s too many", line, seen[i]);
}
#define EXPECT(...) expect((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL }, __LINE__)
#define EXPECT_TEXT(part) ck_assert_msg(strstr(last_text, part) != NULL, "%s lacks %s", last_text, part)

static inline void
open_guard(const char *name, const char *key, const char *value)
{
	const struct soma_backend_option options[] = {
		{ "guard.on_error", "callback" }, { "guard.race", "strict" }, NO_STACKS, { key, value }
	};

	is_async = strstr(name, "async") != NULL;
	seen_count = 0;
	OK(try_open(name, options, key != NULL ? 4 : 3));
	OK(ops->guard_listen(self, note, NULL));
	a = stream_new();
	b = stream_new();
	c = stream_new();
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

static inline void
sync_stream(struct soma_backend_stream *stream)
{
	OK(ops->stream_synchronize(self, stream));
}

static inline void
drain(void)
{
	OK(ops->guard_drain(self, 0));
}

static inline uint64_t
scan_now(void)
{
	uint64_t damaged;

	OK(ops->guard_scan(self, &damaged));
	return damaged;
}

static inline enum soma_status
use(uint64_t ptr, enum soma_backend_access access, struct soma_backend_stream *stream)
{
	return ops->block_use(self, ptr, access, stream);
}

#endif
