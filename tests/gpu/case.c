/* SPDX-License-Identifier: Apache-2.0 */
/* Running cases; see the header.  A case that hangs is ended after CASE_SECONDS by its alarm. */
#include "tests/gpu/case.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CASE_SECONDS 300
#define SKIPPED 77
#define DETAIL_SIZE 600

static int detail_fd = -1; /* to the parent */

static void
say(const char *format, va_list args)
{
	char text[DETAIL_SIZE];
	int length = vsnprintf(text, sizeof text, format, args);

	if (length >= (int)sizeof text)
		length = sizeof text - 1;
	for (int i = 0; i < length; i++)
		if (text[i] == '\n' || text[i] == '\t')
			text[i] = ' ';
	if (detail_fd < 0)
		fprintf(stderr, "%s\n", text);
	else if (write(detail_fd, text, (size_t)length) != length)
		_exit(EXIT_FAILURE);
}

void
case_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	_exit(EXIT_FAILURE);
}

void
case_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	_exit(SKIPPED);
}

void
case_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

static void
run_child(const struct case_entry *entry, const struct case_setup *setup)
{
	static struct gpu gpu;
	const char *reason;

	alarm(CASE_SECONDS);
	reason = gpu_open(&gpu, setup->device);
	if (reason != NULL)
		case_fail("%s", reason);
	entry->run(&gpu, setup);
	gpu_close(&gpu);
	exit(EXIT_SUCCESS);
}

static void
read_all(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;

	while (length < size - 1 && (got = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
}

static const char *
judge(int status, char *detail)
{
	size_t length = strlen(detail);

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
		return "ok";
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		return "skipped";
	if (WIFSIGNALED(status))
		snprintf(detail + length, DETAIL_SIZE - length, "%sended by signal %d%s",
			 length > 0 ? "; " : "", WTERMSIG(status),
			 WTERMSIG(status) == SIGALRM ? ": it hung" : "");
	else if (length == 0)
		snprintf(detail, DETAIL_SIZE, "exit status %d at its end: see standard error",
			 WEXITSTATUS(status));
	return "FAIL";
}

/* False: it failed. */
static bool
run_case(const struct case_entry *entry, const struct case_setup *setup)
{
	char detail[DETAIL_SIZE];
	int ends[2], status = -1;
	const char *result;
	pid_t child;

	fflush(stdout);
	if (pipe(ends) != 0 || (child = fork()) < 0) {
		perror("a case cannot be started");
		return false;
	}
	if (child == 0) {
		close(ends[0]);
		detail_fd = ends[1];
		run_child(entry, setup);
	}
	close(ends[1]);
	read_all(ends[0], detail, sizeof detail);
	close(ends[0]);
	(void)waitpid(child, &status, 0);
	result = judge(status, detail);
	printf("%s\t%s\t%s\t%s\n", entry->name, setup->backend, result, detail);
	return strcmp(result, "FAIL") != 0;
}

static bool
applies(const struct case_entry *entry, const struct case_setup *setup, bool right_only)
{
	if (right_only && (entry->where & CASE_WRONG) != 0)
		return false;
	return (entry->where & (setup->is_guarded ? CASE_GUARDED : CASE_PLAIN)) != 0;
}

static int
usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [--device=N] [--folders=FOLDERS] [--quick] [--right-only] [--case=NAME "
		"[--in-process]] "
		"[--list] BACKEND...\n",
		program);
	return 2;
}

/* How the cases are run, besides the set-up. */
struct choice {
	const char *only;
	bool right_only;
	bool list;
	bool in_process; /* for a tool that does not follow children */
};

static bool
run_chosen(const struct case_entry *entry, const struct case_setup *setup, const struct choice *choice)
{
	if (!applies(entry, setup, choice->right_only) ||
	    (choice->only != NULL && strcmp(choice->only, entry->name) != 0))
		return true;
	if (choice->list) {
		puts(entry->name);
		return true;
	}
	if (choice->in_process)
		run_child(entry, setup);
	return run_case(entry, setup);
}

int
case_main(int argc, char **argv, const struct case_entry *cases, size_t count)
{
	static const struct option options[] = {
		{ "device", required_argument, NULL, 'd' }, { "folders", required_argument, NULL, 'f' },
		{ "case", required_argument, NULL, 'c' },   { "right-only", no_argument, NULL, 'r' },
		{ "quick", no_argument, NULL, 'q' },        { "list", no_argument, NULL, 'l' },
		{ "in-process", no_argument, NULL, 'p' },   { NULL, 0, NULL, 0 },
	};
	struct case_setup setup = { 0 };
	struct choice choice = { 0 };
	bool failed = false;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (option) {
		case 'd':
			setup.device = atoi(optarg);
			break;
		case 'f':
			setup.folders = optarg;
			break;
		case 'c':
			choice.only = optarg;
			break;
		case 'r':
			choice.right_only = true;
			break;
		case 'q':
			setup.quick = true;
			break;
		case 'l':
			choice.list = true;
			break;
		case 'p':
			choice.in_process = true;
			break;
		default:
			return usage(argv[0]);
		}
	}
	if (optind == argc || (choice.in_process && choice.only == NULL))
		return usage(argv[0]);
	for (; optind < argc; optind++) {
		setup.backend = argv[optind];
		setup.is_async = strstr(setup.backend, "async") != NULL;
		setup.is_guarded = strncmp(setup.backend, "guard:", strlen("guard:")) == 0;
		for (size_t i = 0; i < count; i++)
			failed = !run_chosen(&cases[i], &setup, &choice) || failed;
	}
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
