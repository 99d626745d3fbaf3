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

static const char *
example_path(char *path, size_t size, const char *file)
{
	const char *source = getenv("srcdir");

	snprintf(path, size, "%s/examples/%s", source != NULL ? source : ".", file);
	return path;
}

START_TEST(the_examples_are_reproduced_address_by_address)
{
	char path[4096];

	for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++)
		check_known(example_path(path, sizeof path, examples[i].file), &examples[i]);
}
END_TEST

START_TEST(the_examples_are_consistent_under_every_policy)
{
	const struct soma_policy *policy;
	char path[4096];

	for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
		example_path(path, sizeof path, examples[i].file);
		for (size_t p = 0; (policy = soma_policy_at(p)) != NULL; p++)
			check_consistent(path, policy->name);
	}
}
END_TEST

UNIT_MAIN("examples", the_examples_are_reproduced_address_by_address,
	  the_examples_are_consistent_under_every_policy)
