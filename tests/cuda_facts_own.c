/* SPDX-License-Identifier: Apache-2.0 */
/* The table with our own declarations. */
#define SOMA_CUDA_OWN 1
#include "backends/cuda/api.h"
#include "tests/cuda_facts.h"

const struct cuda_fact cuda_facts_own[] = { CUDA_FACTS(CUDA_FACT_VALUE, CUDA_FACT_SIZE, CUDA_FACT_OFFSET) };
const size_t cuda_fact_count = sizeof cuda_facts_own / sizeof cuda_facts_own[0];
