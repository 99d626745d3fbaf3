/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bundled examples: every recorded address and segment reproduced, and the peaks
 * of the runs that they were made from.
 */
#include "tests/known_traces.h"

static const struct known examples[] = {
	{ "finetune-full.csv.gz", 7946, 61, 1783664516, 1897922560 },
	{ "tiny-full.csv", 36, 9, 3249143816, 3781165056 },
};

START_TEST(the_examples_are_reproduced_address_by_address)
{
	for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
		check_known("examples", &examples[i]);
}
END_TEST

START_TEST(the_examples_are_consistent_under_every_policy)
{
	const struct soma_policy *policy;
	char path[512];

	for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
		path_of(path, sizeof path, "examples", examples[i].file);
		for (size_t p = 0; (policy = soma_policy_at(p)) != NULL; p++)
			check_consistent(path, policy->name);
	}
}
END_TEST

UNIT_MAIN("examples", the_examples_are_reproduced_address_by_address,
	  the_examples_are_consistent_under_every_policy)
