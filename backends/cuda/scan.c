/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing memory with a pattern on the device, by a kernel of our own: its text is below, in the driver's
 * assembly language, which every driver translates for its device.
 *
 * One thread looks at one word at a time.  A grid has as many rows as there are ranges; a row's threads go over
 * its range in steps of their number.  The answers lie in pinned memory of the host, changed by atomic
 * operations of one device; the host sets them before the launch and reads them when the stream is past it.
 */
#include "backends/cuda/device.h"

#include <stddef.h>

#define THREADS 256u
#define ROWS_MAX 4096u     /* ranges of one launch */
#define COLUMNS_MAX 512u   /* groups of threads for one range */
#define WORDS_A_THREAD 16u /* so many, before there are more groups */

/* The kernel has these as numbers. */
_Static_assert(sizeof(struct soma_backend_scan) == 40, "the kernel's step");
_Static_assert(offsetof(struct soma_backend_scan, ptr) == 0 &&
		       offsetof(struct soma_backend_scan, bytes) == 8 &&
		       offsetof(struct soma_backend_scan, pattern) == 16 &&
		       offsetof(struct soma_backend_scan, first_bad) == 24 &&
		       offsetof(struct soma_backend_scan, bad_count) == 32,
	       "the kernel's offsets");

/*
 * %rd1 the range's record; %rd2, %rd3 its first address and its end; %rd4 the aligned address of this
 * thread's word; %rd5 the step; %r1 the pattern.  A word wholly inside is loaded at once, and looked at byte by byte
 * only when it differs; the range's ragged ends are looked at byte by byte.
 */
static const char kernel[] = ".version 6.0\n"
			     ".target sm_50\n"
			     ".address_size 64\n"
			     ".visible .entry soma_scan(.param .u64 ranges, .param .u32 count)\n"
			     "{\n"
			     "	.reg .pred %p<8>;\n"
			     "	.reg .b32 %r<20>;\n"
			     "	.reg .b64 %rd<20>;\n"
			     "	mov.u32 %r2, %ctaid.y;\n"
			     "	ld.param.u32 %r3, [count];\n"
			     "	setp.ge.u32 %p1, %r2, %r3;\n"
			     "	@%p1 ret;\n"
			     "	ld.param.u64 %rd1, [ranges];\n"
			     "	cvta.to.global.u64 %rd1, %rd1;\n"
			     "	mul.wide.u32 %rd6, %r2, 40;\n"
			     "	add.u64 %rd1, %rd1, %rd6;\n"
			     "	ld.global.u64 %rd2, [%rd1];\n"
			     "	ld.global.u64 %rd3, [%rd1+8];\n"
			     "	ld.global.u32 %r1, [%rd1+16];\n"
			     "	cvta.to.global.u64 %rd2, %rd2;\n"
			     "	add.u64 %rd3, %rd2, %rd3;\n"
			     "	mov.u32 %r4, %ctaid.x;\n"
			     "	mov.u32 %r5, %ntid.x;\n"
			     "	mov.u32 %r6, %tid.x;\n"
			     "	mov.u32 %r7, %nctaid.x;\n"
			     "	mul.wide.u32 %rd7, %r4, %r5;\n"
			     "	cvt.u64.u32 %rd8, %r6;\n"
			     "	add.u64 %rd7, %rd7, %rd8;\n"
			     "	shl.b64 %rd7, %rd7, 2;\n"
			     "	and.b64 %rd4, %rd2, -4;\n"
			     "	add.u64 %rd4, %rd4, %rd7;\n"
			     "	mul.wide.u32 %rd5, %r7, %r5;\n"
			     "	shl.b64 %rd5, %rd5, 2;\n"
			     "next_word:\n"
			     "	setp.ge.u64 %p1, %rd4, %rd3;\n"
			     "	@%p1 ret;\n"
			     "	setp.lt.u64 %p2, %rd4, %rd2;\n"
			     "	add.u64 %rd9, %rd4, 4;\n"
			     "	setp.gt.u64 %p3, %rd9, %rd3;\n"
			     "	or.pred %p2, %p2, %p3;\n"
			     "	@%p2 bra bytes;\n"
			     "	ld.global.u32 %r8, [%rd4];\n"
			     "	setp.eq.u32 %p1, %r8, %r1;\n"
			     "	@%p1 bra word_done;\n"
			     "bytes:\n"
			     "	mov.u32 %r9, 0;\n"
			     "next_byte:\n"
			     "	cvt.u64.u32 %rd10, %r9;\n"
			     "	add.u64 %rd10, %rd4, %rd10;\n"
			     "	setp.lt.u64 %p4, %rd10, %rd2;\n"
			     "	@%p4 bra byte_done;\n"
			     "	setp.ge.u64 %p5, %rd10, %rd3;\n"
			     "	@%p5 bra byte_done;\n"
			     "	ld.global.u8 %r10, [%rd10];\n"
			     "	shl.b32 %r11, %r9, 3;\n"
			     "	shr.u32 %r12, %r1, %r11;\n"
			     "	and.b32 %r12, %r12, 255;\n"
			     "	setp.eq.u32 %p6, %r10, %r12;\n"
			     "	@%p6 bra byte_done;\n"
			     "	sub.u64 %rd11, %rd10, %rd2;\n"
			     "	mov.u64 %rd12, 1;\n"
			     "	red.global.min.u64 [%rd1+24], %rd11;\n"
			     "	red.global.add.u64 [%rd1+32], %rd12;\n"
			     "byte_done:\n"
			     "	add.u32 %r9, %r9, 1;\n"
			     "	setp.lt.u32 %p7, %r9, 4;\n"
			     "	@%p7 bra next_byte;\n"
			     "word_done:\n"
			     "	add.u64 %rd4, %rd4, %rd5;\n"
			     "	bra next_word;\n"
			     "}\n";

/* A driver may bring a kernel to the device by its first launch only, and wait for other streams there: so one is
 * made here, over no ranges, and not in the middle of somebody's work. */
static CUresult
launch_empty(struct soma_backend *self, const char **what)
{
	const struct cuda_driver *driver = self->driver;
	uint64_t ranges = 0;
	uint32_t count = 0;
	void *parameters[] = { &ranges, &count };
	CUresult result = driver->cuModuleGetFunction(&self->scan, self->module, "soma_scan");

	*what = "cuModuleGetFunction";
	if (result != CUDA_SUCCESS)
		return result;
	*what = "cuLaunchKernel";
	result = driver->cuLaunchKernel(self->scan, 1, 1, 1, 1, 1, 1, 0, self->own, parameters, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	*what = "cuStreamSynchronize";
	return driver->cuStreamSynchronize(self->own);
}

void
cuda_scan_open(struct soma_backend *self)
{
	const struct cuda_driver *driver = self->driver;
	char text[256];
	const char *what = "cuModuleLoadData";
	CUresult result = driver->cuModuleLoadData(&self->module, kernel);

	if (result == CUDA_SUCCESS) {
		result = launch_empty(self, &what);
		if (result != CUDA_SUCCESS && !cuda_meaning_of(result).sticky)
			(void)driver->cuModuleUnload(self->module);
	}
	if (result == CUDA_SUCCESS) {
		self->capabilities |= SOMA_BACKEND_SCANS;
		return;
	}
	self->module = NULL;
	if (cuda_meaning_of(result).sticky)
		(void)cuda_failed(self, result, what);
	else
		self->host->log(self->host->context, SOMA_BACKEND_LOG_WARNING,
				cuda_result_text(driver, result, what, text, sizeof text));
}

static unsigned
columns_for(const struct soma_backend_scan *ranges, size_t count)
{
	uint64_t most = 0, groups;

	for (size_t i = 0; i < count; i++)
		most = ranges[i].bytes > most ? ranges[i].bytes : most;
	groups = most / (4 * WORDS_A_THREAD * THREADS) + 1;
	return groups < COLUMNS_MAX ? (unsigned)groups : COLUMNS_MAX;
}

static enum soma_status
launch(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count, CUstream stream)
{
	uint64_t at = (uintptr_t)ranges;
	uint32_t rows = (uint32_t)count;
	void *parameters[] = { &at, &rows };

	for (size_t i = 0; i < count; i++) {
		ranges[i].first_bad = SOMA_BACKEND_SCAN_CLEAN;
		ranges[i].bad_count = 0;
	}
	return CUDA_CALL(self, cuLaunchKernel, self->scan, columns_for(ranges, count), rows, 1, THREADS, 1, 1,
			 0, stream, parameters, NULL);
}

/* Not on a capturing stream: the host sets the answers once, and the graph may run many times. */
enum soma_status
cuda_scan(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count,
	  struct soma_backend_stream *stream)
{
	struct cuda_scope scope;
	enum soma_status status = cuda_enter(self, &scope);

	if (status != SOMA_STATUS_OK)
		return status;
	status = cuda_refuse_capturing(&scope, stream, "a scan");
	for (size_t at = 0; at < count && status == SOMA_STATUS_OK; at += ROWS_MAX)
		status = launch(self, ranges + at, count - at < ROWS_MAX ? count - at : ROWS_MAX,
				cuda_handle(self, stream));
	if (status == SOMA_STATUS_OK)
		status = cuda_finish(self, stream);
	cuda_leave(&scope);
	return status;
}
