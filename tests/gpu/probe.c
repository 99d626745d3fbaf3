/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what the documentation of the driver leaves open (questions.c).  Writes a file with a line a constant: its
 * name, the value, what facts.h has if that is another; `?` and the reason where nothing was learned.
 * Prints the same as lines of results (case.h).
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/gpu.h"
#include "tests/gpu/probe.h"

#define TEXT_SIZE 256

static void
ask_in_child(const struct probe_question *question, int device, int end)
{
	static struct gpu gpu;
	FILE *out = fdopen(end, "w");
	const char *reason;

	alarm(PROBE_SECONDS);
	reason = gpu_open(&gpu, device);
	if (reason != NULL)
		fprintf(out, "? %s", reason);
	else
		probe_ask(question, &gpu, out);
	fflush(out);
	gpu_go(&gpu);
	/* Not by exit(): what a question leaves behind is nobody's. */
	_exit(EXIT_SUCCESS);
}

static void
read_answer(int end, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while (length < size - 1 && (got = read(end, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
}

static void
ask(const struct probe_question *question, int device, char *text, size_t size)
{
	int ends[2], status;
	pid_t child;

	fflush(NULL);
	if (pipe(ends) != 0 || (child = fork()) < 0) {
		snprintf(text, size, "? no process for it");
		return;
	}
	if (child == 0) {
		close(ends[0]);
		ask_in_child(question, device, ends[1]);
	}
	close(ends[1]);
	read_answer(ends[0], text, size);
	close(ends[0]);
	if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
		snprintf(text, size, "? the process is ended by signal %d", WTERMSIG(status));
}

/* One line of the file, and of the results. */
static void
write_down(FILE *file, const struct probe_question *question, const struct probe_fact *fact, const char *text)
{
	bool known = text[0] != '?' && text[0] != '\0';
	bool same = known && strtoull(text, NULL, 10) == fact->value;
	char remark[64] = "";

	if (known && !same)
		snprintf(remark, sizeof remark, " # facts.h: %" PRIu64, fact->value);
	fprintf(file, "%s %s%s\n", question->name, text, remark);
	printf("%s\tprobe\t%s\t%s%s\n", question->name,
	       !known ? "open"
	       : same ? "ok"
		      : "differs",
	       text, remark);
}

static int
print_device(int device)
{
	static struct gpu opened;
	const char *reason = gpu_open(&opened, device);

	if (reason != NULL) {
		printf("%s\n", reason);
		return 77;
	}
	printf("%s, driver for CUDA %d.%d%s\n", opened.name, opened.driver_version / 1000,
	       opened.driver_version % 1000 / 10, opened.stand_in ? " (the stand-in)" : "");
	return EXIT_SUCCESS;
}

static int
probe(const char *path, int device)
{
	FILE *file = fopen(path, "w");
	char text[TEXT_SIZE];

	if (file == NULL) {
		perror(path);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; probe_questions[i].name != NULL; i++) {
		const struct probe_fact *fact = &probe_facts[i];
		if (fact->name == NULL || strcmp(fact->name, probe_questions[i].name) != 0) {
			fprintf(stderr, "the question %s is not about the next fact\n",
				probe_questions[i].name);
			fclose(file);
			return EXIT_FAILURE;
		}
		ask(&probe_questions[i], device, text, sizeof text);
		write_down(file, &probe_questions[i], fact, text);
	}
	return fclose(file) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "kernels", no_argument, NULL, 'k' },
		{ "file", required_argument, NULL, 'f' },
		{ NULL, 0, NULL, 0 },
	};
	const char *path = NULL;
	int device = 0;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (option == 'd') {
			device = atoi(optarg);
		} else if (option == 'f') {
			path = optarg;
		} else if (option == 'k') {
			fputs(gpu_kernels, stdout);
			return EXIT_SUCCESS;
		} else {
			fprintf(stderr, "usage: %s [--device=N] [--file=FILE] [--kernels]\n", argv[0]);
			return 2;
		}
	}
	return path != NULL ? probe(path, device) : print_device(device);
}
