/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of the driver's interface: against numbers that are known, and against cuda.h. */
#include "tests/cuda_facts.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit.h"

START_TEST(layouts_are_those_of_the_driver)
{
	static const struct cuda_fact known[] = {
		{ "sizeof(CUdeviceptr)", 8 },
		{ "sizeof(CUmemLocation)", 8 },
		{ "sizeof(CUmemAccessDesc)", 12 },
		{ "sizeof(CUmemPoolProps)", 88 },
		{ "CUmemPoolProps.location", 8 },
		{ "CUmemPoolProps.maxSize", 24 },
		{ "sizeof(CUmemAllocationProp)", 32 },
		{ "CUmemAllocationProp.allocFlags", 24 },
		{ "sizeof(CUmemPoolPtrExportData)", 64 },
		{ "sizeof(CUuuid)", 16 },
		{ "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED", 115 },
		{ "CUDA_ERROR_CAPTURED_EVENT", 907 },
	};

	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		size_t at = 0;
		while (at < cuda_fact_count && strcmp(cuda_facts_own[at].name, known[i].name) != 0)
			at++;
		ck_assert_msg(at < cuda_fact_count, "%s", known[i].name);
		ck_assert_msg(cuda_facts_own[at].value == known[i].value, "%s is %lld", known[i].name,
			      cuda_facts_own[at].value);
	}
}
END_TEST

START_TEST(they_are_the_same_as_in_cuda_h)
{
	if (cuda_facts_header == NULL) {
		printf("skipped: there is no cuda.h to compare with\n");
		return;
	}
	for (size_t i = 0; i < cuda_fact_count; i++) {
		ck_assert_str_eq(cuda_facts_own[i].name, cuda_facts_header[i].name);
		ck_assert_msg(cuda_facts_own[i].value == cuda_facts_header[i].value,
			      "%s is %lld, and %lld in cuda.h", cuda_facts_own[i].name,
			      cuda_facts_own[i].value, cuda_facts_header[i].value);
	}
	printf("%zu facts are the same in cuda.h\n", cuda_fact_count);
}
END_TEST

UNIT_MAIN("cuda facts", layouts_are_those_of_the_driver, they_are_the_same_as_in_cuda_h)
