/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement instances of real programs: within 2 % of the lower bound.  Skipped where they
 * are not.
 */
#include <inttypes.h>

#include "tests/recordings.h"
#include "tools/pack/pack.h"

#define ITEMS_MAX 2000

static const struct {
	const char *file;
	size_t count;
	uint64_t bound;
} instances[] = {
	{ "dsa/A.1048576.csv", 154, 1048576 },   { "dsa/B.1048576.csv", 170, 1048576 },
	{ "dsa/C.1048576.csv", 203, 1039360 },   { "dsa/D.1048576.csv", 213, 986112 },
	{ "dsa/E.1048576.csv", 215, 1048576 },   { "dsa/F.1048576.csv", 296, 1048576 },
	{ "dsa/G_1.csv", 816, 3030937746 },      { "dsa/input.12.csv", 5, 12 },
	{ "dsa/resnet50.csv", 1042, 1515472556 },
};

static size_t
read_instance(const char *file, struct pack_item *items)
{
	char path[4096], line[256], id[64];
	FILE *in = fopen(recording_path(path, sizeof path, file), "r");
	size_t count = 0;

	ck_assert_msg(in != NULL, "%s", path);
	while (fgets(line, sizeof line, in) != NULL && count < ITEMS_MAX)
		if (sscanf(line, "%63[^,],%" SCNu64 ",%" SCNu64 ",%" SCNu64, id, &items[count].lower,
			   &items[count].upper, &items[count].size) == 4)
			count++;
	fclose(in);
	return count;
}

START_TEST(every_instance_is_packed_within_2_percent_of_its_bound)
{
	static struct pack_item items[ITEMS_MAX];
	struct pack_result result;
	size_t a, b, count = read_instance(instances[_i].file, items);

	ck_assert_uint_eq(count, instances[_i].count);
	pack_run(items, count, PACK_STEPS_DEFAULT, NULL, &result);
	ck_assert(result.packed);
	ck_assert_uint_eq(result.bound, instances[_i].bound);
	ck_assert(pack_check(items, count, result.height, &a, &b));
	printf("%s: %" PRIu64 ", %.2f %% above the bound, %s, %" PRIu64 " M steps\n", instances[_i].file,
	       result.height, 100 * ((double)result.height / (double)result.bound - 1), result.order,
	       result.steps / 1000000);
	ck_assert_uint_le(result.height, result.bound + result.bound / 50);
}
END_TEST

int
main(void)
{
	char path[4096];
	Suite *suite = suite_create("pack_instances");
	TCase *tcase = tcase_create("instances");

	if (access(recording_path(path, sizeof path, instances[0].file), R_OK) != 0) {
		printf("skipped: no %s (SOMA_TEST_TRACES)\n", path);
		return UNIT_SKIPPED;
	}
	tcase_set_timeout(tcase, 0);
	tcase_add_loop_test(tcase, every_instance_is_packed_within_2_percent_of_its_bound, 0,
			    sizeof instances / sizeof instances[0]);
	suite_add_tcase(suite, tcase);
	return unit_run_suite(suite);
}
