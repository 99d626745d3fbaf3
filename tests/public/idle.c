/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library costs a program that never chooses a backend: nothing to load it, no thread, and no look at the
 * environment.  Run with the library's path, and "quiet" when the memory counts.  Every variable that anybody
 * asks for is seen here, because getenv and secure_getenv are this program's.
 */
#define _GNU_SOURCE
#include <soma/soma.h>

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY_MAX (64l << 10)
#define NAMES_MAX 64

static char names[NAMES_MAX][64];
static unsigned name_count;
static bool quiet;

static char *
look_up(const char *name)
{
	size_t length = strlen(name);

	/* A jemalloc that was not made quiet looks at this one. */
	if (quiet || strcmp(name, "SOMA_JE_MALLOC_CONF") != 0)
		snprintf(names[name_count++ % NAMES_MAX], sizeof names[0], "%s", name);
	for (char **at = environ; at != NULL && *at != NULL; at++)
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

char *
getenv(const char *name)
{
	return look_up(name);
}

char *
secure_getenv(const char *name)
{
	return look_up(name);
}

static int failures;

#define EXPECT(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			failures++;                                                             \
		}                                                                               \
	} while (0)

/* Exactly these were asked for since the last time, each at least once. */
static void
expect_names(const char *a, const char *b)
{
	for (unsigned i = 0; i < name_count && i < NAMES_MAX; i++) {
		if (strcmp(names[i], a) != 0 && strcmp(names[i], b) != 0) {
			fprintf(stderr, "the environment was asked for %s\n", names[i]);
			failures++;
		}
	}
	EXPECT(name_count < NAMES_MAX);
	EXPECT((name_count == 0) == (a[0] == '\0' && b[0] == '\0'));
	name_count = 0;
}

static int
count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	int count = 0;

	while (readdir(tasks) != NULL)
		count++;
	closedir(tasks);
	return count;
}

/* Of /proc/self/status, in bytes. */
static long
read_memory(const char *field)
{
	FILE *file = fopen("/proc/self/status", "r");
	long kilobytes = -1;
	char line[256];

	while (fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, field, strlen(field)) == 0)
			kilobytes = strtol(line + strlen(field), NULL, 10);
	fclose(file);
	return kilobytes << 10;
}

static void *library;

#define CALL(function) ((__typeof__(&function))symbol(#function))

static void *
symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (found == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

static void
use_what_needs_no_backend(void)
{
	EXPECT(strcmp(CALL(soma_version)(), SOMA_VERSION_STRING) == 0);
	EXPECT(strcmp(CALL(soma_status_name)(SOMA_STATUS_ABI), "ABI") == 0);
	EXPECT(CALL(soma_error_last)()->status == SOMA_STATUS_OK);
	CALL(soma_error_clear)();
	CALL(soma_log_set_sink)(NULL, NULL, SOMA_LOG_ERROR);
	CALL(soma_tag_push)(SOMA_TAG_NONE);
	CALL(soma_tag_pop)();
	EXPECT(strcmp(CALL(soma_policy_preset)("cuda")->name, "cuda") == 0);
}

static void
use_model(void)
{
	struct soma_model_alloc alloc;
	struct soma_model *model;

	EXPECT(CALL(soma_model_create)(NULL, &model) == SOMA_STATUS_OK);
	EXPECT(CALL(soma_model_alloc)(model, 1000, 0, &alloc) == SOMA_STATUS_OK);
	EXPECT(CALL(soma_model_free)(model, alloc.ptr, 0) == SOMA_STATUS_OK);
	CALL(soma_model_destroy)(model);
}

static void
use_runtime(void)
{
	struct soma_runtime *runtime;

	EXPECT(CALL(soma_runtime_open)("budgets=1", &runtime) == SOMA_STATUS_INVALID_VALUE);
	expect_names("", "");
	setenv("SOMA_CONF", "budgets=1", 1);
	EXPECT(CALL(soma_runtime_open)(NULL, &runtime) == SOMA_STATUS_INVALID_VALUE);
	expect_names("SOMA_CONF", "");
	EXPECT(CALL(soma_runtime_open)("backend=there-is-none", &runtime) == SOMA_STATUS_NOT_FOUND);
	expect_names("SOMA_BACKEND_PATH", "");
}

int
main(int argc, char **argv)
{
	int threads = count_threads();
	long data, resident;

	if (argc != 3)
		return 2;
	quiet = strcmp(argv[2], "quiet") == 0;
	read_memory("VmData:"); /* what reading takes is there from now on */
	name_count = 0;
	data = read_memory("VmData:");
	resident = read_memory("RssAnon:");
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	use_what_needs_no_backend();
	data = read_memory("VmData:") - data;
	resident = read_memory("RssAnon:") - resident;
	printf("loaded and called: %ld bytes of data mapped, %ld resident\n", data, resident);
	EXPECT(!quiet || resident <= MEMORY_MAX);
	EXPECT(count_threads() == threads);
	expect_names("", "");
	use_model();
	EXPECT(count_threads() == threads);
	expect_names("", "");
	use_runtime();
	EXPECT(count_threads() == threads);
	return failures != 0;
}
