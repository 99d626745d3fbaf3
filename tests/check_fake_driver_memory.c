/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in's memory is real: what is copied arrives, what is not mapped faults, kernels
 * read and write, and what is asked of an address is true.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fake/fixture.h"

static unsigned char *
bytes_at(CUdeviceptr p)
{
	return (unsigned char *)(uintptr_t)p;
}

START_TEST(copies_and_fills_arrive)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr a, b;
	unsigned char text[16] = "stand-in driver", back[16];
	void *pinned;
	ok(cuMemAlloc_v2(&a, 16));
	ok(cuMemAlloc_v2(&b, 16));
	ok(cuMemHostAlloc(&pinned, 16, 0));
	ok(cuMemcpyHtoDAsync_v2(a, text, 16, s));
	memset(text, 0, sizeof text); /* it was staged */
	ok(cuMemcpyDtoDAsync_v2(b, a, 16, s));
	ok(cuMemcpyDtoHAsync_v2(pinned, b, 16, s));
	ck_assert_uint_eq(fake_cuda_pending(s), 3);
	ok(cuMemcpyDtoHAsync_v2(back, b, 16, s)); /* not pinned: done at return */
	ck_assert_str_eq((char *)back, "stand-in driver");
	ck_assert_str_eq(pinned, "stand-in driver");
	ok(cuMemsetD32Async(a, 0x04030201, 4, s));
	ok(cuMemcpy((uintptr_t)back, a, 4));
	ck_assert_uint_eq(back[0], 's'); /* the legacy stream does not wait for s */
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(bytes_at(a)[5], 2);
	ok(cuMemcpyHtoD_v2(b, "x", 2));
	ok(cuMemcpyDtoH_v2(back, b, 2));
	ck_assert_str_eq((char *)back, "x");
	no(cuMemsetD32Async(a + 1, 0, 1, s), CUDA_ERROR_INVALID_VALUE);
	no(cuMemcpyHtoDAsync_v2(a, pinned, 0, (CUstream)8), FAKE_STALE_HANDLE);
	no(cuMemcpyDtoDAsync_v2(a, (uintptr_t)pinned, 4, s), CUDA_ERROR_INVALID_VALUE);
	found(FAKE_FOUND_STALE_HANDLE, 1);
}
END_TEST

START_TEST(a_pinned_source_is_read_when_the_stream_gets_there)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUdeviceptr a, pinned_ptr;
	char *pinned;
	ok(cuMemAlloc_v2(&a, 4));
	ok(cuMemHostAlloc((void **)&pinned, 4, CU_MEMHOSTALLOC_DEVICEMAP));
	ok(cuMemHostGetDevicePointer_v2(&pinned_ptr, pinned, 0));
	strcpy(pinned, "old");
	ok(cuMemcpyHtoDAsync_v2(a, pinned, 4, s));
	strcpy(pinned, "new");
	ok(cuStreamSynchronize(s));
	ck_assert_str_eq((char *)bytes_at(a), "new");
	no(cuMemHostGetDevicePointer_v2(&pinned_ptr, &a, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(small_blocks_share_a_mapping_and_large_ones_come_back)
{
	start(FAKE_STEPPED);
	CUdeviceptr a, b;
	ok(cuMemAlloc_v2(&a, 1));
	ok(cuMemAlloc_v2(&b, 1));
	ck_assert_uint_eq(b - a, FAKE_ALIGNMENT);
	ck_assert_uint_eq(fake_cuda_device_taken(0), FAKE_SYNC_STEP);
	CUdeviceptr c;
	ok(cuMemAlloc_v2(&c, 100 * MIB));
	ck_assert_uint_eq(fake_cuda_device_taken(0), FAKE_SYNC_STEP + 100 * MIB);
	ok(cuMemFree_v2(c));
	ck_assert_uint_eq(fake_cuda_device_taken(0), FAKE_SYNC_STEP);
	ok(cuMemFree_v2(a));
	ok(cuMemFree_v2(b));
	ck_assert_uint_eq(fake_cuda_live(FAKE_ALLOCATIONS), 0);
	found_nothing();
}
END_TEST

/* ---- ranges and mappings -------------------------------------------------------------------- */

static const CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

static bool
faults(CUdeviceptr p)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		_exit(*(volatile unsigned char *)bytes_at(p) == 0x5a ? 0 : 1);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status);
}

START_TEST(only_what_is_mapped_with_access_can_be_reached)
{
	const uint64_t g = FAKE_GRANULARITY;
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	size_t granularity;
	start(FAKE_STEPPED);
	ok(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ck_assert_uint_eq(granularity, g);
	ok(cuMemAddressReserve(&p, 4 * g, 8 * g, 0, 0));
	ck_assert_uint_eq(p % (8 * g), 0);
	ck_assert(faults(p));
	ok(cuMemCreate(&handle, g, &prop, 0));
	ck_assert_uint_eq(fake_cuda_device_taken(0), g);
	ok(cuMemMap(p + g, g, 0, handle, 0));
	ck_assert(faults(p + g));
	ok(cuMemSetAccess(p + g, g, &access, 1));
	bytes_at(p + g)[0] = bytes_at(p + 2 * g)[-1] = 0x5a;
	ck_assert(!faults(p + g));
	ck_assert(faults(p + g - 1));
	ck_assert(faults(p + 2 * g));
	ok(cuMemRelease(handle));
	ck_assert_uint_eq(fake_cuda_device_taken(0), g); /* as long as it is mapped */
	ok(cuMemUnmap(p + g, g));
	ck_assert_uint_eq(fake_cuda_device_taken(0), 0);
	ck_assert(faults(p + g));
	ok(cuMemAddressFree(p, 4 * g));
	found_nothing();
}
END_TEST

START_TEST(one_memory_can_be_mapped_twice)
{
	const uint64_t g = FAKE_GRANULARITY;
	CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	start(FAKE_STEPPED);
	ok(cuMemAddressReserve(&p, 2 * g, 0, 0, 0));
	ok(cuMemCreate(&handle, g, &prop, 0));
	ok(cuMemMap(p, g, 0, handle, 0));
	ok(cuMemMap(p + g, g, 0, handle, 0));
	ok(cuMemSetAccess(p, 2 * g, &access, 1));
	ok(cuMemsetD8_v2(p, 7, 100));
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(bytes_at(p + g)[99], 7);
	ok(cuMemsetD8_v2(p + g - 8, 8, 16)); /* over both */
	found_nothing();
	ok(cuMemsetD8_v2(p + 2 * g - 8, 8, 9));
	found(FAKE_FOUND_OUT_OF_BOUNDS, 1);
	no(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	fake_cuda_findings_clear();
	fake_cuda_sticky(0, CUDA_SUCCESS);
	ck_assert_uint_eq(bytes_at(p)[7], 8);
	ok(cuMemUnmap(p, 2 * g)); /* both */
	ok(cuMemRelease(handle));
	ok(cuMemAddressFree(p, 2 * g));
	ck_assert_uint_eq(fake_cuda_leaks(), 0);
}
END_TEST

START_TEST(mappings_that_are_wrong)
{
	const uint64_t g = FAKE_GRANULARITY;
	CUmemGenericAllocationHandle handle, other;
	CUdeviceptr p;
	start(FAKE_STEPPED);
	no(cuMemAddressReserve(&p, g / 2, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	no(cuMemCreate(&handle, g + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	no(cuMemCreate(&handle, (uint64_t)1 << 50, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
	ok(cuMemAddressReserve(&p, 2 * g, 0, 0, 0));
	ok(cuMemCreate(&handle, 2 * g, &prop, 0));
	no(cuMemMap(p + g, 2 * g, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemMap(p, 2 * g, 0, handle, 0));
	no(cuMemMap(p, g, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	no(cuMemUnmap(p, g), CUDA_ERROR_INVALID_VALUE);
	no(cuMemAddressFree(p, 2 * g), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(p, 2 * g));
	no(cuMemUnmap(p, 2 * g), CUDA_ERROR_INVALID_VALUE);
	no(cuMemAddressFree(p, g), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemRelease(handle));
	found_nothing();
	no(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	other = 12345;
	no(cuMemMap(p, g, 0, other, 0), CUDA_ERROR_INVALID_VALUE);
	found(FAKE_FOUND_STALE_HANDLE, 2);
	ok(cuMemAddressFree(p, 2 * g));
}
END_TEST

/* ---- kernels ----------------------------------------------------------------------------------- */

#define PTX(names) ".version 6.0\n.target sm_50\n.address_size 64\n" names

struct scan {
	uint64_t ptr, bytes;
	uint32_t pattern, reserved;
	uint64_t first_bad, bad_count;
};

START_TEST(the_scan_kernel_finds_what_differs)
{
	start(FAKE_STEPPED);
	CUstream s = new_stream();
	CUmodule module;
	CUfunction scan;
	CUdeviceptr p;
	struct scan *ranges;
	ok(cuModuleLoadData(&module,
			    PTX(".visible .entry soma_scan(.param .u64 a, .param .u32 b) { ret; }")));
	ok(cuModuleGetFunction(&scan, module, "soma_scan"));
	ok(cuMemAlloc_v2(&p, 1000));
	ok(cuMemHostAlloc((void **)&ranges, 2 * sizeof *ranges, 0));
	ok(cuMemsetD32Async(p, 0xFFF1FF93, 250, s));
	ok(cuMemsetD8Async(p + 501, 0, 3, s));
	ranges[0] = (struct scan){ .ptr = p + 1, .bytes = 499, .pattern = 0xFFF1FF93 };
	ranges[1] = (struct scan){ .ptr = p + 500, .bytes = 500, .pattern = 0xFFF1FF93 };
	uint64_t at = (uintptr_t)ranges;
	uint32_t count = 2;
	void *params[] = { &at, &count };
	ok(cuLaunchKernel(scan, 2, 1, 1, 256, 1, 1, 0, s, params, NULL));
	at = count = 0; /* they were copied */
	ok(cuStreamSynchronize(s));
	ck_assert_uint_eq(ranges[0].first_bad, UINT64_MAX);
	ck_assert_uint_eq(ranges[0].bad_count, 0);
	ck_assert_uint_eq(ranges[1].first_bad, 1);
	ck_assert_uint_eq(ranges[1].bad_count, 3);
	found_nothing();
	ok(cuModuleUnload(module));
	no(cuLaunchKernel(scan, 1, 1, 1, 1, 1, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(kernels_touch_memory_and_are_checked)
{
	start(FAKE_STEPPED);
	CUstream a = new_stream(), b = new_stream();
	CUmemoryPool pool = new_pool();
	CUmodule module;
	CUfunction fill, touch;
	ok(cuModuleLoadData(&module,
			    PTX(".visible .entry soma_fill(\n) {}\n.visible .entry\n soma_touch () {}")));
	ok(cuModuleGetFunction(&fill, module, "soma_fill"));
	ok(cuModuleGetFunction(&touch, module, "soma_touch"));
	uint64_t p = alloc(pool, 64, a), count = 16;
	uint32_t value = 5;
	void *params[] = { &p, &value, &count };
	ok(cuLaunchKernel(fill, 1, 1, 1, 16, 1, 1, 0, a, params, NULL));
	found_nothing();
	ok(cuLaunchKernel(fill, 1, 1, 1, 16, 1, 1, 0, b, params, NULL));
	found(FAKE_FOUND_UNORDERED_USE, 1);
	ok(cuCtxSynchronize());
	ck_assert_uint_eq(bytes_at(p)[60], 5);
	fake_cuda_findings_clear();
	/* packed parameters, and past the end */
	struct {
		uint64_t ptr, bytes;
		uint32_t value;
	} packed = { p, 65, 6 };
	size_t size = sizeof packed;
	void *extra[] = { CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
			  CU_LAUNCH_PARAM_END };
	ok(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, a, NULL, extra));
	found(FAKE_FOUND_OUT_OF_BOUNDS, 1);
	ok(cuStreamSynchronize(a));
	ck_assert_uint_eq(bytes_at(p)[64], 6);
	packed.ptr = 4096;
	ok(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, a, NULL, extra));
	no(cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

static void
add_run(void *const *params, unsigned blocks, unsigned threads)
{
	int *sum;

	memcpy(&sum, params[0], sizeof sum);
	*sum += (int)(blocks * threads);
}

START_TEST(tests_register_kernels_of_their_own)
{
	static const size_t sizes[] = { sizeof(int *), 0 };
	static const struct fake_kernel kernel = { "add", sizes, add_run, NULL };
	start(FAKE_STEPPED);
	fake_cuda_kernel(&kernel);
	CUstream s = new_stream();
	CUmodule module;
	CUfunction add;
	int sum = 1, *at = &sum;
	void *params[] = { &at };
	ok(cuModuleLoadData(&module, PTX(".entry adder() {} .entry add() {} .entry none() {}")));
	no(cuModuleGetFunction(&add, module, "none"), CUDA_ERROR_NOT_FOUND);
	no(cuModuleGetFunction(&add, module, "soma_scan"), CUDA_ERROR_NOT_FOUND);
	ok(cuModuleGetFunction(&add, module, "add"));
	ok(cuLaunchKernel(add, 2, 3, 1, 4, 1, 1, 0, s, params, NULL));
	ck_assert_int_eq(sum, 1);
	ok(cuStreamSynchronize(s));
	ck_assert_int_eq(sum, 25);
	no(cuLaunchKernel(add, 1, 1, 1, 1025, 1, 1, 0, s, params, NULL), CUDA_ERROR_INVALID_VALUE);
	no(cuModuleLoadData(&module, "no text"), CUDA_ERROR_INVALID_IMAGE);
	no(cuModuleLoadData(&module, ".version 6.0"), CUDA_ERROR_INVALID_PTX);
}
END_TEST

/* ---- asking about addresses ----------------------------------------------------------------------- */

START_TEST(what_is_known_of_an_address)
{
	start(FAKE_STEPPED);
	CUmemoryPool pool = new_pool(), of;
	CUdeviceptr p = alloc(pool, 100, new_stream()), first;
	unsigned type;
	int device;
	size_t size;
	void *host;
	ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 99));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ok(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 99));
	ck_assert_uint_eq(first, p);
	no(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 100), CUDA_ERROR_INVALID_VALUE);
	ok(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
	ck_assert_ptr_eq(of, pool);
	CUpointer_attribute which[] = { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					CU_POINTER_ATTRIBUTE_RANGE_SIZE };
	void *answers[] = { &device, &size };
	ok(cuPointerGetAttributes(2, which, answers, p));
	ck_assert_int_eq(device, 0);
	ck_assert_uint_eq(size, 100);
	ok(cuPointerGetAttributes(2, which, answers, (uintptr_t)&device));
	ck_assert_int_eq(device, -2);
	ck_assert_uint_eq(size, 0);
	ok(cuMemHostAlloc(&host, 100, 0));
	ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host));
	ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
}
END_TEST

UNIT_MAIN("fake_driver_memory", copies_and_fills_arrive, a_pinned_source_is_read_when_the_stream_gets_there,
	  small_blocks_share_a_mapping_and_large_ones_come_back,
	  only_what_is_mapped_with_access_can_be_reached, one_memory_can_be_mapped_twice,
	  mappings_that_are_wrong, the_scan_kernel_finds_what_differs, kernels_touch_memory_and_are_checked,
	  tests_register_kernels_of_their_own, what_is_known_of_an_address)
