/* SPDX-License-Identifier: Apache-2.0 */
/* backends/host/machine.c: the machine's memory under control groups of both versions, in made-up trees. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/host/machine.h"
#include "tests/unit.h"

#define MIB ((uint64_t)1 << 20)

static char root[64];

/* Writes root/path, with the folders on the way. */
static void
put(const char *path, const char *text)
{
	char full[512];
	int length = snprintf(full, sizeof full, "%s/%s", root, path);

	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	ck_assert_int_lt(length, (int)sizeof full);
	FILE *file = fopen(full, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static void
begin(void)
{
	strcpy(root, "/tmp/check_machine.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	put("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 5 kB\nMemAvailable:    524288 kB\n");
}

/* Reads the tree and takes it away. */
static struct machine
end(void)
{
	struct machine machine = { 0 };
	char command[128];

	ck_assert(machine_read(root, &machine));
	snprintf(command, sizeof command, "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
	return machine;
}

START_TEST(without_groups_the_machine_is_all_there_is)
{
	begin();
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 1024 * MIB);
	ck_assert_uint_eq(machine.free, 512 * MIB);
}
END_TEST

START_TEST(version_2_counts_every_group_up_to_the_mount)
{
	begin();
	put("proc/self/cgroup", "0::/user/job\n");
	put("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw\n"
				   "30 1 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
	put("sys/fs/cgroup/user/memory.max", "104857600\n");    /* 100 MiB */
	put("sys/fs/cgroup/user/memory.current", "73400320\n"); /* 70 MiB */
	put("sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file 10485760\nactive_file 3\n");
	put("sys/fs/cgroup/user/job/memory.max", "max\n");
	put("sys/fs/cgroup/user/job/memory.current", "1\n");
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 100 * MIB);
	ck_assert_uint_eq(machine.free, 40 * MIB);
}
END_TEST

START_TEST(the_lowest_limit_and_the_least_room_count_each)
{
	begin();
	put("proc/self/cgroup", "0::/user/job\n");
	put("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n");
	put("sys/fs/cgroup/user/memory.max", "209715200\n"); /* 200 MiB, 190 used */
	put("sys/fs/cgroup/user/memory.current", "199229440\n");
	put("sys/fs/cgroup/user/job/memory.max", "104857600\n"); /* 100 MiB, 10 used */
	put("sys/fs/cgroup/user/job/memory.current", "10485760\n");
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 100 * MIB);
	ck_assert_uint_eq(machine.free, 10 * MIB);
}
END_TEST

START_TEST(version_1_is_found_by_its_controller)
{
	begin();
	put("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/job\n0::/\n");
	put("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
				   "31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "52428800\n"); /* 50 MiB */
	put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "20971520\n"); /* 20 MiB */
	put("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 5242880\n");
	put("sys/fs/cgroup/cpu/other/memory.limit_in_bytes", "1\n");
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 50 * MIB);
	ck_assert_uint_eq(machine.free, 35 * MIB);
}
END_TEST

START_TEST(in_a_container_the_mount_is_the_group_itself)
{
	begin();
	put("proc/self/cgroup", "4:memory:/docker/abc\n");
	put("proc/self/mountinfo",
	    "31 1 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "52428800\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "52428801\n");
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 50 * MIB);
	ck_assert_uint_eq(machine.free, 0);
}
END_TEST

START_TEST(a_group_that_is_not_below_the_mount_is_taken_for_the_mount)
{
	begin();
	put("proc/self/cgroup", "0::/../elsewhere\n");
	put("proc/self/mountinfo", "30 1 0:26 /mine /cg rw - cgroup2 cgroup2 rw\n");
	put("cg/memory.max", "52428800\n");
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 50 * MIB);
	ck_assert_uint_eq(machine.free, 50 * MIB);
}
END_TEST

START_TEST(files_that_make_no_sense_are_no_limits)
{
	begin();
	put("proc/self/cgroup", "\n:\n::\n0::\nx\n");
	put("proc/self/mountinfo", "\n - \n - cgroup2\n1 2 - cgroup2 x y\n");
	put("memory.max", "what\n");
	struct machine machine = end();
	ck_assert_uint_eq(machine.total, 1024 * MIB);
	begin();
	put("proc/meminfo", "MemTotal: lots\n");
	ck_assert(!machine_read(root, &machine));
	put("proc/meminfo", "MemTotal: 4 kB\nMemAvailable: 2 kB\n");
	machine = end();
	ck_assert_uint_eq(machine.total, 4096);
	ck_assert(!machine_read("/nowhere", &machine));
	ck_assert_uint_eq(machine.total, 4096);
}
END_TEST

START_TEST(this_machine_can_be_read)
{
	struct machine machine;

	ck_assert(machine_read("", &machine));
	ck_assert_uint_gt(machine.total, 0);
	ck_assert_uint_le(machine.free, machine.total);
}
END_TEST

UNIT_MAIN("host_machine", without_groups_the_machine_is_all_there_is,
	  version_2_counts_every_group_up_to_the_mount, the_lowest_limit_and_the_least_room_count_each,
	  version_1_is_found_by_its_controller, in_a_container_the_mount_is_the_group_itself,
	  a_group_that_is_not_below_the_mount_is_taken_for_the_mount, files_that_make_no_sense_are_no_limits,
	  this_machine_can_be_read)
