/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kit's kernels in the driver's assembly language.  After a change: ptxas -arch=sm_75 (and the newest) must
 * take what tests/gpu/probe --kernels prints.
 *
 * touch, read and check go over their bytes in steps of the grid: %rd1 the byte, %rd2 the end, %rd3 the step.
 * wait looks at a word of pinned memory until it is not 0, or a second is over.
 */
#include "tests/gpu/gpu.h"

#define OVER_BYTES                            \
	"	ld.param.u64 %rd1, [ptr];\n"  \
	"	ld.param.u64 %rd2, [bytes];\n" \
	"	cvta.to.global.u64 %rd1, %rd1;\n" \
	"	add.u64 %rd2, %rd1, %rd2;\n"  \
	"	mov.u32 %r1, %ctaid.x;\n"     \
	"	mov.u32 %r2, %ntid.x;\n"      \
	"	mov.u32 %r3, %tid.x;\n"       \
	"	mov.u32 %r4, %nctaid.x;\n"    \
	"	mul.wide.u32 %rd4, %r1, %r2;\n" \
	"	cvt.u64.u32 %rd5, %r3;\n"     \
	"	add.u64 %rd4, %rd4, %rd5;\n"  \
	"	add.u64 %rd1, %rd1, %rd4;\n"  \
	"	mul.wide.u32 %rd3, %r2, %r4;\n" \
	"next:\n"                             \
	"	setp.ge.u64 %p1, %rd1, %rd2;\n" \
	"	@%p1 bra done;\n"

#define REGISTERS                        \
	"	.reg .pred %p<4>;\n"     \
	"	.reg .b32 %r<12>;\n"     \
	"	.reg .b64 %rd<12>;\n"

/* clang-format off */
const char gpu_kernels[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry soma_touch(.param .u64 ptr, .param .u64 bytes, .param .u32 value)\n"
	"{\n"
	REGISTERS
	"	ld.param.u32 %r5, [value];\n"
	OVER_BYTES
	"	st.global.u8 [%rd1], %r5;\n"
	"	add.u64 %rd1, %rd1, %rd3;\n"
	"	bra next;\n"
	"done:\n"
	"	ret;\n"
	"}\n"
	".visible .entry soma_read(.param .u64 ptr, .param .u64 bytes)\n"
	"{\n"
	REGISTERS
	OVER_BYTES
	/* volatile: nothing is done with it */
	"	ld.volatile.global.u8 %r5, [%rd1];\n"
	"	add.u64 %rd1, %rd1, %rd3;\n"
	"	bra next;\n"
	"done:\n"
	"	ret;\n"
	"}\n"
	".visible .entry soma_check(.param .u64 ptr, .param .u64 bytes, .param .u32 value, .param .u64 result)\n"
	"{\n"
	REGISTERS
	"	ld.param.u32 %r5, [value];\n"
	"	and.b32 %r5, %r5, 255;\n"
	"	ld.param.u64 %rd6, [result];\n"
	"	cvta.to.global.u64 %rd6, %rd6;\n"
	"	mov.u64 %rd7, 0;\n"
	OVER_BYTES
	"	ld.global.u8 %r6, [%rd1];\n"
	"	add.u64 %rd1, %rd1, %rd3;\n"
	"	setp.eq.u32 %p2, %r6, %r5;\n"
	"	@%p2 bra next;\n"
	"	add.u64 %rd7, %rd7, 1;\n"
	"	bra next;\n"
	"done:\n"
	"	setp.eq.u64 %p3, %rd7, 0;\n"
	"	@%p3 ret;\n"
	"	red.global.add.u64 [%rd6], %rd7;\n"
	"	ret;\n"
	"}\n"
	".visible .entry soma_wait(.param .u64 flag)\n"
	"{\n"
	REGISTERS
	"	ld.param.u64 %rd1, [flag];\n"
	"	cvta.to.global.u64 %rd1, %rd1;\n"
	"	mov.u64 %rd2, %globaltimer;\n"
	"again:\n"
	"	ld.volatile.global.u32 %r1, [%rd1];\n"
	"	setp.ne.u32 %p1, %r1, 0;\n"
	"	@%p1 ret;\n"
	"	mov.u64 %rd3, %globaltimer;\n"
	"	sub.u64 %rd3, %rd3, %rd2;\n"
	"	setp.lt.u64 %p2, %rd3, 1000000000;\n"
	"	@%p2 bra again;\n"
	"	ret;\n"
	"}\n";
/* clang-format on */
