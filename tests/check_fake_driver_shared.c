/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in as a program meets it: found by LD_LIBRARY_PATH alone, set up by the
 * environment, in several processes, and as an old driver.  This program is not linked with
 * it; it starts itself again, with the library's folder in the environment and a task to do.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/api.h"
#include "tests/fake/fake.h"
#include "tests/unit.h"

static void *library;
static struct fake_controls fake;

/* ---- in the other process ------------------------------------------------------------------ */

/* Declares a pointer to the function, as a program without headers of the driver would get it. */
#define FIND(function) __typeof__(function) *p_##function = (__typeof__(function) *)dlsym(library, #function)
#define WANT(condition)                                                         \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			_exit(9);                                               \
		}                                                               \
	} while (0)

static CUcontext
begin(void)
{
	FIND(cuInit);
	FIND(cuDevicePrimaryCtxRetain);
	FIND(cuCtxSetCurrent);
	CUcontext context;

	WANT(p_cuInit(0) == CUDA_SUCCESS);
	WANT(p_cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	WANT(p_cuCtxSetCurrent(context) == CUDA_SUCCESS);
	return context;
}

static int
task_leak(char **arguments)
{
	FIND(cuMemAlloc_v2);
	CUdeviceptr p;

	(void)arguments;
	begin();
	WANT(p_cuMemAlloc_v2(&p, 100) == CUDA_SUCCESS);
	return 0;
}

static int
task_clean(char **arguments)
{
	(void)arguments;
	begin();
	return 0;
}

static int
task_environment(char **arguments)
{
	FIND(cuDriverGetVersion);
	FIND(cuDeviceGetCount);
	FIND(cuDeviceTotalMem_v2);
	FIND(cuStreamCreate);
	FIND(cuEventCreate);
	FIND(cuEventRecord);
	FIND(cuEventQuery);
	FIND(cuGetProcAddress_v2);
	int version, count;
	size_t bytes;
	CUstream s;
	CUevent e;
	void *function;

	(void)arguments;
	begin();
	WANT(p_cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 12020);
	WANT(p_cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 3);
	WANT(p_cuDeviceTotalMem_v2(&bytes, 2) == CUDA_SUCCESS && bytes == 1 << 30);
	WANT(p_cuStreamCreate(&s, 0) == CUDA_SUCCESS);
	WANT(p_cuEventCreate(&e, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	WANT(p_cuEventCreate(&e, 0) == CUDA_SUCCESS);
	WANT(p_cuEventRecord(e, s) == CUDA_SUCCESS);
	WANT(p_cuEventQuery(e) == CUDA_ERROR_NOT_READY);
	WANT(p_cuGetProcAddress_v2("cuMemPoolTrimTo", &function, 12000, 0, NULL) == CUDA_SUCCESS);
	WANT(function == NULL);
	WANT(fake.step(s, 1) == 1);
	WANT(p_cuEventQuery(e) == CUDA_SUCCESS);
	return 0;
}

/* Reads a block of the exporting process and writes into it. */
static int
task_import(char **arguments)
{
	FIND(cuMemPoolImportFromShareableHandle);
	FIND(cuMemPoolImportPointer);
	FIND(cuMemAllocFromPoolAsync);
	FIND(cuMemcpyDtoH_v2);
	FIND(cuMemsetD8_v2);
	FIND(cuMemFreeAsync);
	FIND(cuCtxSynchronize);
	FIND(cuMemPoolDestroy);
	CUmemoryPool pool;
	CUmemPoolPtrExportData data;
	CUdeviceptr p, q;
	char text[6];

	begin();
	int fd = atoi(arguments[0]);
	for (size_t i = 0; i < sizeof data.reserved; i++)
		WANT(sscanf(arguments[1] + 2 * i, "%2hhx", &data.reserved[i]) == 1);
	WANT(p_cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						  0) == CUDA_SUCCESS);
	WANT(p_cuMemAllocFromPoolAsync(&q, 1, pool, NULL) == CUDA_ERROR_INVALID_VALUE);
	WANT(p_cuMemPoolImportPointer(&p, pool, &data) == CUDA_SUCCESS);
	WANT(p_cuMemcpyDtoH_v2(text, p, 6) == CUDA_SUCCESS);
	WANT(strcmp(text, "hello") == 0);
	WANT(p_cuMemsetD8_v2(p, 'H', 1) == CUDA_SUCCESS);
	WANT(p_cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	WANT(p_cuCtxSynchronize() == CUDA_SUCCESS);
	data.reserved[0] ^= 1;
	WANT(p_cuMemPoolImportPointer(&p, pool, &data) == CUDA_ERROR_INVALID_VALUE);
	WANT(p_cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	WANT(fake.findings() == 0 && fake.leaks() == 0);
	return 0;
}

static const struct task {
	const char *name;
	int (*run)(char **arguments);
} tasks[] = {
	{ "leak", task_leak },
	{ "clean", task_clean },
	{ "environment", task_environment },
	{ "import", task_import },
};

/* ---- here ------------------------------------------------------------------------------------ */

struct outcome {
	int status;
	char text[4096]; /* of its standard error */
};

/* Starts the task with variables NAME=VALUE, ended by NULL. */
static struct outcome
start_task(const char *name, const char *one, const char *two, char *const *variables)
{
	struct outcome outcome = { 0 };
	char *arguments[] = { "self", (char *)name, (char *)one, (char *)two, NULL };
	int pipes[2], status;
	size_t length = 0;
	ssize_t n;

	ck_assert_int_eq(pipe(pipes), 0);
	pid_t child = fork();
	if (child == 0) {
		while (*variables != NULL)
			putenv(*variables++);
		dup2(pipes[1], 2);
		close(pipes[0]);
		close(pipes[1]);
		execv("/proc/self/exe", arguments);
		_exit(8);
	}
	close(pipes[1]);
	while ((n = read(pipes[0], outcome.text + length, sizeof outcome.text - 1 - length)) > 0)
		length += (size_t)n;
	close(pipes[0]);
	waitpid(child, &status, 0);
	ck_assert_msg(WIFEXITED(status), "status %d: %s", status, outcome.text);
	outcome.status = WEXITSTATUS(status);
	return outcome;
}

START_TEST(a_process_reports_and_fails_at_its_end)
{
	char *set[] = { "FAKE_CUDA_REPORT=stderr", "FAKE_CUDA_EXIT=5", NULL };
	struct outcome o = start_task("leak", NULL, NULL, set);
	ck_assert_int_eq(o.status, 5);
	ck_assert_ptr_nonnull(strstr(o.text, "allocation"));
	ck_assert_ptr_nonnull(strstr(o.text, "1 findings"));
	o = start_task("clean", NULL, NULL, set);
	ck_assert_int_eq(o.status, 0);
	ck_assert_ptr_nonnull(strstr(o.text, "0 findings"));
}
END_TEST

START_TEST(the_environment_sets_up_a_process)
{
	char *set[] = { "FAKE_CUDA_VERSION=12020",
			"FAKE_CUDA_DEVICES=3",
			"FAKE_CUDA_MEMORY=0x40000000",
			"FAKE_CUDA_MODE=stepped",
			"FAKE_CUDA_FAIL=cuEventCreate:1:2",
			"FAKE_CUDA_HIDE=cuMemPoolTrimTo",
			NULL };
	struct outcome o = start_task("environment", NULL, NULL, set);
	ck_assert_msg(o.status == 0, "%s", o.text);
}
END_TEST

START_TEST(a_pool_is_shared_with_another_process)
{
	FIND(cuMemPoolCreate);
	FIND(cuMemPoolExportToShareableHandle);
	FIND(cuMemPoolExportPointer);
	FIND(cuMemAllocFromPoolAsync);
	FIND(cuMemFreeAsync);
	FIND(cuStreamSynchronize);
	FIND(cuMemPoolDestroy);
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data;
	CUmemoryPool pool, plain;
	CUdeviceptr filler, p;
	int fd;
	char number[16], name[2 * sizeof data.reserved + 1];
	char *nothing[] = { NULL };

	begin();
	WANT(p_cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
	WANT(p_cuMemAllocFromPoolAsync(&filler, 1000, pool, NULL) == CUDA_SUCCESS);
	WANT(p_cuMemAllocFromPoolAsync(&p, 6, pool, NULL) == CUDA_SUCCESS);
	WANT(p_cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	strcpy((char *)(uintptr_t)p, "hello");
	WANT(p_cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
	     CUDA_SUCCESS);
	WANT(p_cuMemPoolExportPointer(&data, p) == CUDA_SUCCESS);
	fcntl(fd, F_SETFD, 0);
	snprintf(number, sizeof number, "%d", fd);
	for (size_t i = 0; i < sizeof data.reserved; i++)
		snprintf(name + 2 * i, 3, "%02x", data.reserved[i]);
	struct outcome o = start_task("import", number, name, nothing);
	ck_assert_msg(o.status == 0, "%s", o.text);
	ck_assert_str_eq((char *)(uintptr_t)p, "Hello");
	close(fd);
	props.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
	WANT(p_cuMemPoolCreate(&plain, &props) == CUDA_SUCCESS);
	WANT(p_cuMemPoolExportToShareableHandle(&fd, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
	     CUDA_ERROR_INVALID_VALUE);
	WANT(p_cuMemPoolDestroy(plain) == CUDA_SUCCESS);
	WANT(p_cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	WANT(p_cuMemFreeAsync(filler, NULL) == CUDA_SUCCESS);
	WANT(p_cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	WANT(p_cuStreamSynchronize(NULL) == CUDA_SUCCESS);
	ck_assert_uint_eq(fake.findings(), 0);
	ck_assert_uint_eq(fake.leaks(), 0);
}
END_TEST

START_TEST(it_is_found_by_the_environment_alone)
{
	Dl_info info;

	ck_assert(dladdr(dlsym(library, "cuInit"), &info) != 0);
	ck_assert_ptr_nonnull(strstr(info.dli_fname, NEW_DRIVER));
}
END_TEST

START_TEST(an_old_driver_exports_little)
{
	void *old = dlopen(OLD_DRIVER "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	ck_assert_msg(old != NULL, "%s", dlerror());
	ck_assert_ptr_nonnull(dlsym(old, "cuInit"));
	ck_assert_ptr_nonnull(dlsym(old, "cuDriverGetVersion"));
	ck_assert_ptr_null(dlsym(old, "cuGetProcAddress"));
	ck_assert_ptr_null(dlsym(old, "cuGetProcAddress_v2"));
	ck_assert_ptr_null(dlsym(old, "cuMemAllocAsync"));
}
END_TEST

/* The loader reads LD_LIBRARY_PATH once, so it must be there when the program starts. */
static void
start_again(char **argv)
{
	const char *path = getenv("LD_LIBRARY_PATH");
	char longer[8192];

	if (path != NULL && strncmp(path, NEW_DRIVER, strlen(NEW_DRIVER)) == 0)
		return;
	snprintf(longer, sizeof longer, "%s%s%s", NEW_DRIVER, path != NULL ? ":" : "",
		 path != NULL ? path : "");
	setenv("LD_LIBRARY_PATH", longer, 1);
	execv("/proc/self/exe", argv);
	_exit(8);
}

int
main(int argc, char **argv)
{
	const TTest *const tests[] = { a_process_reports_and_fails_at_its_end,
				       the_environment_sets_up_a_process,
				       a_pool_is_shared_with_another_process,
				       it_is_found_by_the_environment_alone, an_old_driver_exports_little };

	start_again(argv);
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL || !fake_controls(library, &fake))
		return 7;
	for (size_t i = 0; argc > 1 && i < sizeof tasks / sizeof tasks[0]; i++)
		if (strcmp(argv[1], tasks[i].name) == 0)
			return tasks[i].run(argv + 2);
	return unit_run("fake_driver_shared", tests, sizeof tests / sizeof tests[0]);
}
