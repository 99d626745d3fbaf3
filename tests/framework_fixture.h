/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of frameworks, found in their modules as a framework does it, over the stand-in driver.
 */
#ifndef SOMA_TESTS_FRAMEWORK_FIXTURE_H
#define SOMA_TESTS_FRAMEWORK_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <soma/soma.h>

#include "tests/fake/fake.h"
#include "tests/unit.h"

#undef fail

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* As the frameworks declare them; cudaStream_t is a pointer to an unknown struct. */
typedef struct CUstream_st *cudaStream_t;
static void *(*torch_malloc)(ssize_t size, int device, cudaStream_t stream);
static void (*torch_free)(void *ptr, ssize_t size, int device, cudaStream_t stream);
static void (*torch_record_stream)(void *ptr, cudaStream_t stream);
static void (*torch_reset)(void);
static int (*torch_stats)(int device, char *json, size_t size);
static const char *(*torch_error)(void);
static int (*torch_flush)(void);
static void *(*cupy_malloc)(void *param, size_t size, int device);
static void (*cupy_free)(void *param, void *ptr, int device);
static int (*cupy_stats)(int device, char *json, size_t size);
static void *(*rmm_allocate)(size_t bytes, cudaStream_t stream, void *argument);
static void (*rmm_deallocate)(void *ptr, size_t bytes, cudaStream_t stream, void *argument);
static const char *(*rmm_error)(void);

/* Of the driver, what a framework would call. */
static struct fake_controls fake;
static int (*stream_create)(cudaStream_t *stream, unsigned flags);
static int (*stream_destroy)(cudaStream_t stream);
static int (*fill)(uint64_t ptr, unsigned char value, size_t count, cudaStream_t stream);
static int (*context_current)(void *context);
static int (*context_retain)(void **context, int device);

#define FIND(library, variable, name)                                     \
	do {                                                              \
		*(void **)&(variable) = dlsym(library, name);             \
		ck_assert_msg((variable) != NULL, "%s is missing", name); \
	} while (0)

static inline void *
load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	ck_assert_msg(library != NULL, "%s", dlerror());
	return library;
}

static inline void
load_modules(void)
{
	void *torch = load(FRAMEWORK_FOLDER "/soma_torch.so"), *cupy = load(FRAMEWORK_FOLDER "/soma_cupy.so"),
	     *rmm = load(FRAMEWORK_FOLDER "/soma_rmm.so");

	FIND(torch, torch_malloc, "soma_torch_malloc");
	FIND(torch, torch_free, "soma_torch_free");
	FIND(torch, torch_record_stream, "soma_torch_record_stream");
	FIND(torch, torch_reset, "soma_torch_reset");
	FIND(torch, torch_stats, "soma_torch_stats");
	FIND(torch, torch_error, "soma_torch_error");
	FIND(torch, torch_flush, "soma_torch_flush");
	FIND(cupy, cupy_malloc, "soma_cupy_malloc");
	FIND(cupy, cupy_free, "soma_cupy_free");
	FIND(cupy, cupy_stats, "soma_cupy_stats");
	FIND(rmm, rmm_allocate, "soma_rmm_allocate");
	FIND(rmm, rmm_deallocate, "soma_rmm_deallocate");
	FIND(rmm, rmm_error, "soma_rmm_error");
	ck_assert_ptr_null(dlsym(torch, "framework_take"));
}

/* The driver in a mode, with the context that a framework has made current; soma as `conf` says. */
static inline void
start(const char *conf, enum fake_mode mode)
{
	char text[1024];
	void *driver = load("libcuda.so.1"), *context;
	int (*init)(unsigned flags);

	ck_assert(fake_controls(driver, &fake));
	fake.check_signals(false);
	fake.mode(mode, 7, 3);
	FIND(driver, init, "cuInit");
	FIND(driver, stream_create, "cuStreamCreate");
	FIND(driver, stream_destroy, "cuStreamDestroy_v2");
	FIND(driver, fill, "cuMemsetD8Async");
	FIND(driver, context_current, "cuCtxSetCurrent");
	FIND(driver, context_retain, "cuDevicePrimaryCtxRetain");
	ck_assert_int_eq(init(0), 0);
	ck_assert_int_eq(context_retain(&context, 0), 0);
	ck_assert_int_eq(context_current(context), 0);
	snprintf(text, sizeof text, "backend_path=" BACKEND_FOLDERS ",%s", conf);
	setenv("SOMA_CONF", text, 1);
	load_modules();
}

static inline void
expect_nothing_found(void)
{
	char text[256] = "";

	fake.run_all();
	fake.finding(0, NULL, text, sizeof text);
	ck_assert_msg(fake.findings() == 0, "%zu findings, the first: %s", fake.findings(), text);
}

static inline cudaStream_t
new_stream(void)
{
	cudaStream_t stream;

	ck_assert_int_eq(stream_create(&stream, 1), 0);
	return stream;
}

static inline void
write_all(void *ptr, size_t bytes, cudaStream_t stream)
{
	ck_assert_int_eq(fill((uintptr_t)ptr, 0x5a, bytes, stream), 0);
}

/* The number after "name": in what is said of the device. */
static inline uint64_t
stat_of(int (*stats)(int, char *, size_t), int device, const char *name)
{
	char json[2048], key[64];
	int length = stats(device, json, sizeof json);

	ck_assert_msg(length > 0 && (size_t)length < sizeof json, "%s", torch_error());
	snprintf(key, sizeof key, "\"%s\":", name);
	const char *at = strstr(json, key);
	ck_assert_msg(at != NULL, "%s has no %s", json, name);
	return strtoull(at + strlen(key), NULL, 10);
}

/* "A", or "A:B" where the variable is A already. */
static inline void
add_option(const char *variable, const char *option)
{
	const char *options = getenv(variable);
	char text[1024];

	snprintf(text, sizeof text, "%s%s%s", options != NULL ? options : "", options != NULL ? ":" : "",
		 option);
	setenv(variable, text, 1);
}

/*
 * Devices stay open to the end, and a leak checker does not look into soma's arenas for pointers.  For a fork
 * jemalloc takes more locks at once than a checker of deadlocks can count.
 */
static inline void
find_stand_in(char **argv)
{
	const char *path = getenv("LD_LIBRARY_PATH");

	if (path != NULL && strncmp(path, FAKE_FOLDER, strlen(FAKE_FOLDER)) == 0)
		return;
	add_option("ASAN_OPTIONS", "detect_leaks=0");
	add_option("TSAN_OPTIONS", "detect_deadlocks=0");
	setenv("LD_LIBRARY_PATH", FAKE_FOLDER ":" LIBRARY_FOLDER, 1);
	execv("/proc/self/exe", argv);
	perror("/proc/self/exe");
	exit(EXIT_FAILURE);
}

#endif
