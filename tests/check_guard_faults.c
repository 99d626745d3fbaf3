/* SPDX-License-Identifier: Apache-2.0 */
/* Bad accesses to blocks in mappings of their own: what is said of them.  Each ends a child. */
#include "config.h"

#include "tests/guard_child.h"

#include <jansson.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static volatile unsigned char sink;

static void
read_past(struct fixture *f)
{
	unsigned char *p = take(f, 4096, NULL);

	sink = p[4096];
}

static void
write_past(struct fixture *f)
{
	unsigned char *p = take(f, 8192, NULL);

	p[8192] = 1;
}

static void
write_before(struct fixture *f)
{
	unsigned char *p = take(f, 4096, NULL);

	p[-1] = 1;
}

/* Its place is looked for: it must not become a part of another one. */
__attribute__((noinline)) static void
touch_freed(struct fixture *f)
{
	unsigned char *p = take(f, 4096, NULL);

	give(f, p, 4096, NULL);
	sink = p[17];
}

START_TEST(row_30_mapped_guard_faults_with_the_address_and_the_class)
{
	static const struct {
		void (*body)(struct fixture *f);
		const char *kind, *part;
	} cases[] = {
		{ read_past, "oob-access-after", "offset +4096 of block" },
		{ write_past, "oob-access-after", "offset +8192 of block" },
		{ write_before, "oob-access-before", "offset -1 of block" },
		{ touch_freed, "access-after-free", "offset +17 of block" },
	};
	static const enum inner_kind kinds[] = { INNER_DIRECT, INNER_HOST };

	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (unsigned k = 0; k < 2; k++) {
			int status;
			const char *text = run_child(cases[i].body, kinds[k], &status);
			ck_assert_msg(status != 0, "case %u did not fault", i);
			ck_assert_msg(strstr(text, cases[i].kind) && strstr(text, cases[i].part),
				      "case %u: %s", i, text);
		}
	}
}
END_TEST

/* ---- where a fault was ---- */

/* A line of a stack: "    #0 0x7f.. (/usr/bin/program+0x1234)". */
struct frame {
	unsigned long address, offset;
	char file[PATH_MAX];
};

/* The frames of the part that begins so; how many have a file. */
static int
read_stack(const char *text, const char *part, struct frame *frames, int most, int *with_file)
{
	const char *at = strstr(text, part);
	int count = 0;

	ck_assert_msg(at != NULL, "no %s in: %s", part, text);
	*with_file = 0;
	for (at += strlen(part); strncmp(at, "    #", 5) == 0; at = strchr(at, '\n') + 1) {
		struct frame *frame = &frames[count];
		int number, items = sscanf(at, "    #%d %lx (%4095[^+]+%lx)", &number, &frame->address,
					   frame->file, &frame->offset);
		ck_assert_msg(items == 2 || items == 4, "%s", at);
		ck_assert_int_eq(number, count);
		*with_file += items == 4;
		if (++count == most)
			break;
	}
	return count;
}

struct lookup {
	const struct frame *frame;
	bool found;
};

/* Against what the loader says: its names, and how far it moved a file from where that was linked. */
static int
look_in(struct dl_phdr_info *info, size_t size, void *context)
{
	struct lookup *lookup = context;
	char path[PATH_MAX];

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		if (part->p_type != PT_LOAD ||
		    lookup->frame->address - info->dlpi_addr - part->p_vaddr >= part->p_memsz)
			continue;
		ck_assert_uint_eq(lookup->frame->offset, lookup->frame->address - info->dlpi_addr);
		ck_assert_ptr_nonnull(
			realpath(info->dlpi_name[0] == '\0' ? "/proc/self/exe" : info->dlpi_name, path));
		ck_assert_str_eq(lookup->frame->file, path);
		lookup->found = true;
	}
	return lookup->found;
}

static void
expect_frames(const struct frame *frames, int count)
{
	for (int i = 0; i < count; i++) {
		struct lookup lookup = { .frame = &frames[i] };
		dl_iterate_phdr(look_in, &lookup);
		ck_assert_msg(lookup.found, "0x%lx is nowhere", frames[i].address);
	}
}

static bool
is_inside(void (*body)(struct fixture *f), const struct frame *frame)
{
	return frame->address - (unsigned long)(uintptr_t)body < 256;
}

/* The child has the same addresses as the test. */
START_TEST(a_fault_names_the_instruction_and_the_file_of_each_frame_with_the_place_in_it)
{
	struct frame frames[16];
	int status, count, named;
	const char *text = run_child(touch_freed, INNER_DIRECT, &status);

	ck_assert_int_ne(status, 0);
	ck_assert_int_eq(read_stack(text, "\n now:\n", frames, 16, &named), 1);
	ck_assert_int_eq(named, 1);
	ck_assert_msg(is_inside(touch_freed, &frames[0]), "%s", text);
	expect_frames(frames, 1);
	static const char *const parts[] = { "\n alloc:\n", "\n free:\n" };
	for (unsigned i = 0; i < 2; i++) {
		count = read_stack(text, parts[i], frames, 16, &named);
		ck_assert_int_ge(count, 3);
		ck_assert_int_eq(named, count);
		expect_frames(frames, count);
		for (named = 0; named < count && !is_inside(touch_freed, &frames[named]);)
			named++;
		ck_assert_msg(named < count, "%s", text);
	}
}
END_TEST

static void
touch_freed_without_descriptors(struct fixture *f)
{
	const struct rlimit none = { 0, 0 };

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	touch_freed(f);
}

START_TEST(a_fault_that_can_open_nothing_is_told_with_addresses)
{
	struct frame frames[16];
	int status, named;
	const char *text = run_child(touch_freed_without_descriptors, INNER_DIRECT, &status);

	ck_assert_int_ne(status, 0);
	ck_assert_ptr_nonnull(strstr(text, "offset +17 of block"));
	ck_assert_int_eq(read_stack(text, "\n now:\n", frames, 16, &named), 1);
	ck_assert_int_eq(named, 0);
	ck_assert(is_inside(touch_freed, &frames[0]));
	ck_assert_int_ge(read_stack(text, "\n free:\n", frames, 16, &named), 3);
	ck_assert_int_eq(named, 0);
}
END_TEST

#define THREADS 4u
static _Atomic unsigned told;
static pthread_barrier_t barrier;

/* The program's own: the last ends the process. */
static void
wait_for_others(int number)
{
	(void)number;
	if (atomic_fetch_add(&told, 1) + 1 == THREADS)
		_exit(3);
	for (;;)
		pause();
}

static void *
touch_with_others(void *context)
{
	struct fixture *f = context;
	unsigned char *p = take(f, 4096, NULL);

	give(f, p, 4096, NULL);
	pthread_barrier_wait(&barrier);
	sink = p[17];
	return NULL;
}

static void
touch_by_threads(struct fixture *f)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, touch_with_others, f), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

START_TEST(faults_of_several_threads_at_once_are_told_one_after_the_other)
{
	static const char *const parts[] = { "soma-guard: ERROR access-after-free",
					     "\n now:", "\n alloc:", "\n free:", "\n found by: fault" };
	struct sigaction before, own = { .sa_handler = wait_for_others };
	int status;

	ck_assert_int_eq(sigaction(SIGSEGV, &own, &before), 0);
	const char *at = run_child(touch_by_threads, INNER_DIRECT, &status);
	ck_assert_int_eq(sigaction(SIGSEGV, &before, NULL), 0);
	ck_assert_int_eq(status, 3 << 8);
	for (unsigned i = 0; i < THREADS * 5; i++) {
		ck_assert_msg(strncmp(at, parts[i % 5], strlen(parts[i % 5])) == 0, "%u: %s", i, at);
		/* The frames are passed over. */
		for (at = strchr(at + 1, '\n'); strncmp(at, "\n    #", 6) == 0;)
			at = strchr(at + 1, '\n');
		at += i % 5 == 4;
	}
	ck_assert_str_eq(at, "");
}
END_TEST

/* ---- as JSON, and odd names ---- */

/* The same frames as in the text. */
static void
expect_json_stack(json_t *report, const char *name, const char *text, const char *part)
{
	json_t *stack = json_object_get(json_object_get(report, name), "stack"), *frame;
	const char *at = strstr(text, part) + strlen(part);
	char expected[PATH_MAX + 64], pc[32];
	size_t i;

	ck_assert_uint_ge(json_array_size(stack), 1);
	json_array_foreach(stack, i, frame)
	{
		snprintf(expected, sizeof expected, "    #%zu %s\n", i,
			 json_string_value(json_object_get(frame, "name")));
		ck_assert_msg(strncmp(at, expected, strlen(expected)) == 0, "%s in %s", expected, at);
		ck_assert_int_eq(sscanf(expected, " #%*d %31s", pc), 1);
		ck_assert_str_eq(json_string_value(json_object_get(frame, "pc")), pc);
		at += strlen(expected);
	}
	ck_assert_int_ne(strncmp(at, "    #", 5), 0);
}

static void
expect_json(const char *text)
{
	json_error_t error;
	json_t *report = json_loads(child_json, 0, &error);

	ck_assert_msg(report != NULL, "%s: %s", error.text, child_json);
	ck_assert_str_eq(json_string_value(json_object_get(report, "kind")), "access-after-free");
	expect_json_stack(report, "now", text, "\n now:\n");
	expect_json_stack(report, "alloc", text, "\n alloc:\n");
	expect_json_stack(report, "free", text, "\n free:\n");
	json_decref(report);
}

START_TEST(the_json_of_a_fault_has_the_same_frames)
{
	int status;
	const char *text = run_child(touch_freed, INNER_DIRECT, &status);

	ck_assert_int_ne(status, 0);
	expect_json(text);
}
END_TEST

#define ODD_NAME "guard \"faults\"\\%ld"

static void
copy_program(const char *to)
{
	FILE *in = fopen("/proc/self/exe", "r"), *made = fopen(to, "w");
	char bytes[4096];
	size_t n;

	ck_assert(in != NULL && made != NULL);
	while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
		ck_assert_uint_eq(fwrite(bytes, 1, n, made), n);
	fclose(in);
	ck_assert_int_eq(fclose(made), 0);
	ck_assert_int_eq(chmod(to, 0700), 0);
}

START_TEST(the_copy_faults)
{
	run_guarded(touch_freed, INNER_DIRECT);
}
END_TEST

/* It is gone from its folder when it faults. */
START_TEST(a_program_with_an_odd_name_that_was_replaced_is_named)
{
	char name[64], expected[128];
	int status;

	begin_child();
	snprintf(name, sizeof name, ODD_NAME, (long)getpid());
	copy_program(name);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		unsetenv("CK_RUN_CASE");
		execl(name, name, output, json, (char *)NULL);
		_exit(0);
	}
	const char *text = end_child(pid, &status);
	unlink(name);
	ck_assert_int_ne(status, 0);
	snprintf(expected, sizeof expected, "/%s (deleted)+0x", name);
	ck_assert_msg(strstr(text, expected) != NULL, "%s", text);
	expect_json(text);
}
END_TEST

/* With arguments: the program of that test. */
int
main(int argc, char **argv)
{
	const TTest *const tests[] = {
		row_30_mapped_guard_faults_with_the_address_and_the_class,
		a_fault_names_the_instruction_and_the_file_of_each_frame_with_the_place_in_it,
		a_fault_that_can_open_nothing_is_told_with_addresses,
		faults_of_several_threads_at_once_are_told_one_after_the_other,
		the_json_of_a_fault_has_the_same_frames,
		a_program_with_an_odd_name_that_was_replaced_is_named,
	};

	if (argc == 3) {
		const TTest *const copy[] = { the_copy_faults };
		snprintf(output, sizeof output, "%s", argv[1]);
		snprintf(json, sizeof json, "%s", argv[2]);
		unlink(argv[0]);
		setenv("CK_FORK", "no", 1);
		return unit_run("guard faults, a copy", copy, 1);
	}
	return unit_run("guard faults", tests, sizeof tests / sizeof tests[0]);
}
