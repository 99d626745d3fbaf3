/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of values by cuda.h, where it is found in the include path.
 */
#include <stddef.h>

#if defined(__has_include)
#if __has_include(<cuda.h>)
#define HAVE_CUDA_H 1
#include <cuda.h>
#endif
#endif

#include "tests/fake/values.h"

/* CUmemPoolProps.maxSize came with 12.2. */
#if defined(HAVE_CUDA_H) && CUDA_VERSION >= 12020
static const struct fake_value rows[] = { FAKE_VALUE_ROWS };
const struct fake_value *const fake_values_cuda = rows;
const unsigned long fake_values_cuda_count = sizeof rows / sizeof rows[0];
#else
const struct fake_value *const fake_values_cuda = NULL;
const unsigned long fake_values_cuda_count = 0;
#endif
