/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that the stand-in can be told to do wrong: failing calls, errors that come
 * late or stay, old and incomplete drivers, missing devices.
 */
#include <string.h>

#include "tests/fake/fixture.h"

/* Called with zeros: what fails on order does not look at them. */
typedef CUresult anything(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			  uint64_t, uint64_t, uint64_t);

struct named {
	const char *name;
	unsigned always;
	anything *call;
};

#define ENTRY_ALWAYS 1
#define ENTRY_PLAIN 0
#define ENTRY_STICKY 0
#define ENTRY_STREAM 0
#define ENTRY_CTX 0
#define ENTRY_WAITS 0
#define ENTRY_UNSAFE 0
static const struct named entries[] = {
#define X(name, symbol, since, flags, args) { #symbol, flags, (anything *)(void (*)(void))symbol },
	FAKE_ENTRIES(X)
#undef X
};

#define ENTRIES (sizeof entries / sizeof entries[0])

static CUresult
call(const struct named *entry)
{
	return entry->call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

START_TEST(every_entry_fails_at_its_first_call_when_told)
{
	start(FAKE_STEPPED);
	for (size_t i = 0; i < ENTRIES; i++) {
		ck_assert_str_eq(fake_cuda_entry(i), entries[i].name);
		uint64_t before = fake_cuda_calls(entries[i].name);
		ck_assert(fake_cuda_fail(entries[i].name, 1, CUDA_ERROR_UNKNOWN));
		no(call(&entries[i]), CUDA_ERROR_UNKNOWN);
		ck_assert_uint_eq(fake_cuda_calls(entries[i].name), before + 1);
		ck_assert_uint_eq(fake_cuda_failures(), i + 1);
	}
	ck_assert_ptr_null(fake_cuda_entry(ENTRIES));
	found_nothing();
}
END_TEST

START_TEST(the_nth_call_fails_and_no_other)
{
	start(FAKE_STEPPED);
	CUevent e;
	fake_cuda_fail("cuEventCreate", 3, CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 1; i <= 6; i++)
		no(cuEventCreate(&e, 0), i == 3 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
	ck_assert_uint_eq(fake_cuda_live(FAKE_EVENTS), 5);
	fake_cuda_fail("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
	fake_cuda_fail_none();
	ok(cuEventCreate(&e, 0));
	ck_assert(!fake_cuda_fail("cuNoSuchThing", 1, 1));
}
END_TEST

START_TEST(the_nth_call_of_any_entry_fails)
{
	start(FAKE_STEPPED);
	CUstream s;
	CUevent e;
	const char *name;
	fake_cuda_fail(NULL, 2, CUDA_ERROR_UNKNOWN);
	ok(cuStreamCreate(&s, 0));
	ok(cuGetErrorName(CUDA_SUCCESS, &name)); /* not counted: it cannot fail */
	no(cuEventCreate(&e, 0), CUDA_ERROR_UNKNOWN);
	ok(cuEventCreate(&e, 0));
}
END_TEST

START_TEST(the_environment_orders_failures)
{
	setenv("FAKE_CUDA_FAIL", "cuEventCreate:2:2,*:4:999", 1);
	start(FAKE_STEPPED); /* two calls of the four, cuInit is not counted */
	unsetenv("FAKE_CUDA_FAIL");
	CUevent e;
	ok(cuEventCreate(&e, 0));
	no(cuEventCreate(&e, 0), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuEventCreate(&e, 0));
	setenv("FAKE_CUDA_FAIL", "cuEventCreate;2", 1);
	fake_cuda_restart();
	unsetenv("FAKE_CUDA_FAIL");
	ck_assert_uint_eq(fake_cuda_findings(), 1);
}
END_TEST

/* ---- errors of work ----------------------------------------------------------------------------- */

START_TEST(a_sticky_error_is_the_answer_of_every_call_that_needs_the_context)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUevent e = recorded(s);
	CUdeviceptr p;
	size_t a, b;
	int version;
	const char *name;
	fake_cuda_sticky(0, CUDA_ERROR_LAUNCH_FAILED);
	no(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
	no(cuEventQuery(e), CUDA_ERROR_LAUNCH_FAILED);
	no(cuMemAlloc_v2(&p, 1), CUDA_ERROR_LAUNCH_FAILED);
	no(cuMemGetInfo_v2(&a, &b), CUDA_ERROR_LAUNCH_FAILED);
	no(cuStreamDestroy_v2(s), CUDA_ERROR_LAUNCH_FAILED);
	no(cuMemPoolDestroy(NULL), CUDA_ERROR_LAUNCH_FAILED);
	ok(cuDriverGetVersion(&version));
	ok(cuGetErrorName(CUDA_ERROR_LAUNCH_FAILED, &name));
	ck_assert_str_eq(name, "CUDA_ERROR_LAUNCH_FAILED");
	ok(cuDevicePrimaryCtxRelease_v2(0));
}
END_TEST

START_TEST(a_deferred_error_is_told_once_by_a_call_that_then_does_nothing)
{
	start(FAKE_STEPPED);
	CUevent e;
	fake_cuda_deferred_calls_work(false);
	fake_cuda_deferred(0, CUDA_ERROR_LAUNCH_FAILED);
	no(cuEventCreate(&e, 0), CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_uint_eq(fake_cuda_live(FAKE_EVENTS), 0);
	ok(cuEventCreate(&e, 0));
	fake_cuda_deferred_calls_work(true);
	fake_cuda_deferred(0, CUDA_ERROR_LAUNCH_FAILED);
	no(cuEventCreate(&e, 0), CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_uint_eq(fake_cuda_live(FAKE_EVENTS), 2);
}
END_TEST

START_TEST(a_synchronisation_that_tells_an_error_has_waited)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	recorded(s);
	fake_cuda_deferred(0, CUDA_ERROR_LAUNCH_FAILED);
	no(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
	ck_assert_uint_eq(fake_cuda_pending(s), 0);
	ok(cuStreamSynchronize(s));
}
END_TEST

START_TEST(work_fails_when_it_runs)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	fake_cuda_fail_work(0, 2, CUDA_ERROR_LAUNCH_TIMEOUT, false);
	recorded(s);
	CUevent e = recorded(s);
	fake_cuda_step(s, 1);
	no(cuEventQuery(e), CUDA_ERROR_NOT_READY);
	no(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_TIMEOUT);
	ok(cuEventQuery(e));
	fake_cuda_fail_work(0, 1, CUDA_ERROR_ILLEGAL_ADDRESS, true);
	recorded(s);
	no(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
	no(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

/* ---- drivers and devices that are not there ---------------------------------------------------------- */

static void *
symbol(const char *name, int version, uint64_t flags)
{
	void *function = &function;
	CUdriverProcAddressQueryResult status;

	ok(cuGetProcAddress_v2(name, &function, version, flags, &status));
	ck_assert_int_eq(function == NULL, status != CU_GET_PROC_ADDRESS_SUCCESS);
	return function;
}

START_TEST(symbols_come_in_the_version_asked_for)
{
	fake_cuda_restart();
	ck_assert_ptr_eq(symbol("cuDeviceGetUuid", 11030, 0), (void *)cuDeviceGetUuid);
	ck_assert_ptr_eq(symbol("cuDeviceGetUuid", 11040, 0), (void *)cuDeviceGetUuid_v2);
	ck_assert_ptr_eq(symbol("cuCtxSynchronize", 12000, 0), (void *)cuCtxSynchronize);
	ck_assert_ptr_eq(symbol("cuCtxSynchronize", 13000, 0), (void *)cuCtxSynchronize_v2);
	ck_assert_ptr_eq(symbol("cuStreamGetCaptureInfo", 12020, 0), (void *)cuStreamGetCaptureInfo_v2);
	ck_assert_ptr_eq(symbol("cuStreamGetCaptureInfo", 12030, 0), (void *)cuStreamGetCaptureInfo_v3);
	ck_assert_ptr_eq(symbol("cuMemAlloc", 12000, 0), (void *)cuMemAlloc_v2);
	ck_assert_ptr_null(symbol("cuMemAlloc_v2", 12000, 0)); /* the plain name is the key */
	ck_assert_ptr_null(symbol("cuMemAllocAsync", 11010, 0));
	ck_assert_ptr_null(symbol("cuNoSuchThing", 12000, 0));
}
END_TEST

START_TEST(symbols_come_for_the_default_stream_asked_for)
{
	fake_cuda_restart();
	ck_assert_ptr_eq(symbol("cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM),
			 (void *)cuMemAllocAsync);
	ck_assert_ptr_eq(symbol("cuMemAllocAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
			 (void *)cuMemAllocAsync_ptsz);
	ck_assert_ptr_eq(symbol("cuMemcpy", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
			 (void *)cuMemcpy_ptds);
	ck_assert_ptr_eq(symbol("cuEventQuery", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
			 (void *)cuEventQuery);
	void *function;
	no(cuGetProcAddress_v2("cuInit", &function, 12000, 4, NULL), CUDA_ERROR_INVALID_VALUE);
	no(cuGetProcAddress_v2("cuInit", &function, 14000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	no(cuGetProcAddress("cuNoSuchThing", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
}
END_TEST

START_TEST(an_old_driver_lacks_what_came_later)
{
	fake_cuda_restart();
	fake_cuda_driver_version(11010);
	int version, value;
	void *function;
	CUmemoryPool pool;
	ok(cuDriverGetVersion(&version));
	ck_assert_int_eq(version, 11010);
	ok(cuInit(0));
	no(cuGetProcAddress_v2("cuInit", &function, 2000, 0, NULL), CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
	no(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
	no(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0),
	   CUDA_ERROR_INVALID_VALUE);
	fake_cuda_driver_version(11040);
	no(cuGetProcAddress_v2("cuInit", &function, 2000, 0, NULL), CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
	ok(cuGetProcAddress("cuMemAllocAsync", &function, 11040, 0));
	no(cuGetProcAddress("cuStreamGetId", &function, 11040, 0), CUDA_ERROR_NOT_FOUND);
	no(cuGetProcAddress("cuInit", &function, 12000, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_symbol_can_be_null_with_success)
{
	fake_cuda_restart();
	fake_cuda_hide("cuMemPoolTrimTo");
	ck_assert_ptr_null(symbol("cuMemPoolTrimTo", 12000, 0));
	ck_assert_ptr_nonnull(symbol("cuMemPoolCreate", 12000, 0));
	fake_cuda_hide(NULL);
	ck_assert_ptr_nonnull(symbol("cuMemPoolTrimTo", 12000, 0));
}
END_TEST

START_TEST(cuInit_can_fail)
{
	int count;
	fake_cuda_restart();
	fake_cuda_init_result(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	no(cuInit(0), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
	no(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	fake_cuda_restart();
	fake_cuda_devices(0);
	no(cuInit(0), CUDA_ERROR_NO_DEVICE);
	no(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	fake_cuda_restart();
	fake_cuda_devices(5);
	ok(cuInit(0));
	ok(cuDeviceGetCount(&count));
	ck_assert_int_eq(count, 5);
}
END_TEST

START_TEST(a_device_without_pools)
{
	CUcontext context;
	CUmemoryPool pool;
	CUdeviceptr p;
	int value;
	fake_cuda_restart();
	fake_cuda_device_pools(0, false);
	fake_cuda_device_vmm(0, false);
	ok(cuInit(0));
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	ck_assert_int_eq(value, 0);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1));
	ck_assert_int_eq(value, 1);
	ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
	ck_assert_int_eq(value, 0);
	no(cuDeviceGetDefaultMemPool(&pool, 0), CUDA_ERROR_NOT_SUPPORTED);
	ok(cuDevicePrimaryCtxRetain(&context, 0));
	ok(cuCtxSetCurrent(context));
	no(cuMemAllocAsync(&p, 1, NULL), CUDA_ERROR_NOT_SUPPORTED);
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	no(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
	ok(cuMemAlloc_v2(&p, 1));
}
END_TEST

START_TEST(every_error_has_a_name_and_a_text)
{
	const char *name, *text;
	fake_cuda_restart();
#define X(code, value, words)              \
	ok(cuGetErrorName(code, &name));   \
	ck_assert_str_eq(name, #code);     \
	ok(cuGetErrorString(code, &text)); \
	ck_assert_uint_ne(strlen(text), 0);
	FAKE_RESULTS(X)
#undef X
	no(cuGetErrorName((CUresult)12345, &name), CUDA_ERROR_INVALID_VALUE);
	ck_assert_ptr_null(name);
}
END_TEST

UNIT_MAIN("fake_driver_faults", every_entry_fails_at_its_first_call_when_told,
	  the_nth_call_fails_and_no_other, the_nth_call_of_any_entry_fails, the_environment_orders_failures,
	  a_sticky_error_is_the_answer_of_every_call_that_needs_the_context,
	  a_deferred_error_is_told_once_by_a_call_that_then_does_nothing,
	  a_synchronisation_that_tells_an_error_has_waited, work_fails_when_it_runs,
	  symbols_come_in_the_version_asked_for, symbols_come_for_the_default_stream_asked_for,
	  an_old_driver_lacks_what_came_later, a_symbol_can_be_null_with_success, cuInit_can_fail,
	  a_device_without_pools, every_error_has_a_name_and_a_text)
