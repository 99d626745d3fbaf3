/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a question of the probe asks the driver, and answers: the value and words, into `out`.  One question a process;
 * both variables are probe_ask()'s.
 */
#ifndef SOMA_TESTS_GPU_ASK_H
#define SOMA_TESTS_GPU_ASK_H

#include <stdio.h>

#include "tests/gpu/gpu.h"

extern FILE *out;
extern struct gpu *gpu;

void answer(uint64_t value);
void answer_result(CUresult result);
void answer_nothing(const char *why);

/* For calls that the question takes for granted: it ends the process when one fails, with that as the answer. */
#define MUST(entry, ...) must(gpu->entry(__VA_ARGS__), #entry)
void must(CUresult result, const char *what);

CUmemoryPool pool_new(uint64_t max, CUmemAllocationHandleType handles); /* max: bytes; 0: none */
void keep_all(CUmemoryPool pool);
void reuse_after_synchronisation_only(CUmemoryPool pool);
uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute which);

CUstream stream_new(void); /* non-blocking */
CUdeviceptr take(CUmemoryPool pool, uint64_t bytes, CUstream stream);

/* The stream has executed all, and the driver was not asked. */
void wait_unseen(CUstream stream);
/* And asked until it said so. */
void query_until_done(CUstream stream);

/* Nothing on a GPU. */
void stand_in_mode(enum fake_mode mode);

#endif
