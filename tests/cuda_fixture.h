/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA backends over the stand-in driver of tests/fake.  The product finds that as it finds a driver, by
 * LD_LIBRARY_PATH, which is read when a process starts: so a test runs itself again with it set.
 */
#ifndef SOMA_TESTS_CUDA_FIXTURE_H
#define SOMA_TESTS_CUDA_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <soma/status.h>

#include "backends/cuda/driver.h"
#include "lib/plugin/backend.h"
#include "tests/check_resource_sanitizer.h"
#include "tests/fake/fake.h"
#include "tests/unit.h"

#undef fail /* an old macro of Check, and a control of the stand-in */

#define MB ((uint64_t)1 << 20)

#define OK(call)                                                                             \
	do {                                                                                 \
		enum soma_status ok_ = (call);                                               \
		ck_assert_msg(ok_ == SOMA_STATUS_OK, #call ": %s", soma_error_last()->text); \
	} while (0)
#define REFUSED(status, part, call)                                                             \
	do {                                                                                    \
		soma_error_clear();                                                             \
		ck_assert_int_eq(call, SOMA_STATUS_##status);                                   \
		ck_assert_msg(strstr(soma_error_last()->text, part) != NULL, "%s lacks \"%s\"", \
			      soma_error_last()->text, part);                                   \
	} while (0)

/* Most of what is tested is the same for both. */
static const char *const both[] = { "async", "sync" };
#define BOTH (sizeof both / sizeof both[0])

static struct fake_controls fake;
static struct soma__backend *backend;
static const struct soma_backend_ops *ops;
static struct soma_backend *self;

#include "tests/backend_words.h"

static inline void
find_stand_in(char **argv)
{
	const char *path = getenv("LD_LIBRARY_PATH");

	if (path != NULL && strncmp(path, FAKE_FOLDER, strlen(FAKE_FOLDER)) == 0)
		return;
	setenv("LD_LIBRARY_PATH", FAKE_FOLDER, 1);
	execv("/proc/self/exe", argv);
	perror("/proc/self/exe");
	exit(EXIT_FAILURE);
}

/* The stand-in's controls; at the beginning of each test. */
static inline void
start_fake(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	ck_assert_msg(library != NULL, "%s", dlerror());
	ck_assert(fake_controls(library, &fake));
	fake.check_signals(false);
}

static inline enum soma_status
try_open(const char *name, const struct soma_backend_option *options, size_t count)
{
	const struct soma__backend_config config = {
		.name = name, .search = BACKEND_FOLDERS, .option_count = count, .options = options
	};
	enum soma_status status = soma__backend_open(&config, &backend);

	if (status == SOMA_STATUS_OK) {
		ops = backend->ops;
		self = backend->self;
	}
	return status;
}

static inline void
open_backend(const char *name)
{
	OK(try_open(name, NULL, 0));
}

static inline void
open_with(const char *name, const char *key, const char *value)
{
	const struct soma_backend_option option = { key, value };

	OK(try_open(name, &option, 1));
}

/* A test's beginning, where the backend needs no options. */
static inline void
start(const char *name, enum fake_mode mode)
{
	start_fake();
	fake.mode(mode, 1, 0);
	open_backend(name);
}

/* Nothing may have been found, and nothing be left. */
static inline void
expect_nothing_found(const char *file, int line)
{
	char text[256] = "";

	fake.finding(0, NULL, text, sizeof text);
	ck_assert_msg(fake.findings() == 0, "%s:%d: %zu findings, the first: %s", file, line, fake.findings(),
		      text);
}
#define EXPECT_NOTHING_FOUND() expect_nothing_found(__FILE__, __LINE__)

static inline void
close_backend(void)
{
	soma__backend_close(backend);
	EXPECT_NOTHING_FOUND();
	fake.leaks();
	EXPECT_NOTHING_FOUND();
	ck_assert_uint_eq(fake.live(FAKE_CONTEXTS), 0);
}

/* The entries themselves, for work and captures that are not the backend's. */
static inline const struct cuda_driver *
driver(void)
{
	static struct cuda_driver table;
	static bool filled;
	void *library = filled ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUresult (*get)(const char *name, void **entry, int version, cuuint64_t flags,
			CUdriverProcAddressQueryResult *found);

	if (filled)
		return &table;
	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
#define X(name, since, arguments) \
	ck_assert_int_eq(get(#name, (void **)(void *)&table.name, since, 1, NULL), CUDA_SUCCESS);
	CUDA_SYMBOLS(X)
#undef X
	filled = true;
	return &table;
}

/* An entry that the backends do not use. */
static inline void *
entry(const char *name)
{
	void *found = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name);

	ck_assert_msg(found != NULL, "%s", name);
	return found;
}

/* The device's context as the calling thread's current one, as a program has it. */
static inline void
push_context(int device)
{
	CUcontext context;

	ck_assert_int_eq(driver()->cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
	ck_assert_int_eq(driver()->cuCtxPushCurrent(context), CUDA_SUCCESS);
}

static inline void
pop_context(int device)
{
	CUcontext context;

	ck_assert_int_eq(driver()->cuCtxPopCurrent(&context), CUDA_SUCCESS);
	ck_assert_int_eq(driver()->cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
}

static inline void *
native(struct soma_backend_stream *stream)
{
	return (void *)(uintptr_t)info_of(stream).native;
}

#define CUDA_MAIN(name, ...)                                                  \
	int main(int argc, char **argv)                                       \
	{                                                                     \
		const TTest *const tests[] = { __VA_ARGS__ };                 \
		(void)argc;                                                   \
		find_stand_in(argv);                                          \
		return unit_run(name, tests, sizeof tests / sizeof tests[0]); \
	}

#endif
