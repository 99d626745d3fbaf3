/* SPDX-License-Identifier: Apache-2.0 */
/* The table with cuda.h; and the entries' arguments and versions against the toolkit's own list of them, which is a
 * matter of compiling. */
#include "backends/cuda/symbols.h"
#include "tests/cuda_facts.h"

#ifdef SOMA_WITH_CUDA_H
#include <cudaTypedefs.h>

static const struct cuda_fact facts[] = { CUDA_FACTS(CUDA_FACT_VALUE, CUDA_FACT_SIZE, CUDA_FACT_OFFSET) };
const struct cuda_fact *const cuda_facts_header = facts;

#define X(name, since, arguments)                                                                  \
	_Static_assert(__builtin_types_compatible_p(PFN_##name##_v##since, CUresult(*) arguments), \
		       #name " has other arguments, or another version");
CUDA_SYMBOLS(X)
#undef X

#else
const struct cuda_fact *const cuda_facts_header = NULL;
#endif
