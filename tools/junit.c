/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XML is written whole into a file opened for it; nothing is kept.
 */
#include "tools/junit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/report.h"
#include "tools/xalloc.h"

#define CLASS "soma.check"

/* What is clean holds no character that XML has not, either. */
static void
put_line(FILE *out, const char *text)
{
	static const struct {
		char byte;
		const char *entity;
	} entities[] = {
		{ '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&apos;" }
	};
	char *clean = report_clean(text);

	for (const char *at = clean; *at != '\0'; at++) {
		const char *entity = NULL;

		for (size_t i = 0; i < sizeof entities / sizeof entities[0]; i++)
			if (*at == entities[i].byte)
				entity = entities[i].entity;
		if (entity != NULL)
			fputs(entity, out);
		else
			fputc(*at, out);
	}
	free(clean);
}

/* A break of lines in an attribute is a blank. */
static void
put_text(FILE *out, const char *text)
{
	char *copy = xstrdup(text), *rest = copy;

	for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
		put_line(out, line);
		if (rest != NULL)
			fputc(' ', out);
	}
	free(copy);
}

static void
put_problem(FILE *out, const char *name, const char *element, const char *message, const char *detail)
{
	fputs("    <testcase classname=\"" CLASS "\" name=\"", out);
	put_text(out, name);
	if (message == NULL) {
		fputs("\"/>\n", out);
		return;
	}
	fprintf(out, "\">\n      <%s message=\"", element);
	put_text(out, message);
	fputs("\">", out);
	if (detail != NULL)
		put_text(out, detail);
	fprintf(out, "</%s>\n    </testcase>\n", element);
}

static void
put_suite(FILE *out, const char *suite, const struct junit_case *cases, size_t count, const char *error)
{
	size_t failures = 0;

	for (size_t i = 0; i < count; i++)
		failures += cases[i].failure != NULL;
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"", out);
	put_text(out, suite);
	fprintf(out, "\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\">\n", count + (error != NULL), failures,
		error != NULL);
	for (size_t i = 0; i < count; i++)
		put_problem(out, cases[i].name, "failure", cases[i].failure, cases[i].detail);
	if (error != NULL)
		put_problem(out, "trace", "error", error, NULL);
	fputs("  </testsuite>\n</testsuites>\n", out);
}

bool
junit_write(const char *path, const char *suite, const struct junit_case *cases, size_t count,
	    const char *error)
{
	FILE *out = fopen(path, "w");
	bool failed;
	int problem;

	if (out == NULL)
		return false;
	put_suite(out, suite, cases, count, error);
	/* What closing says of a file that failed before is not why. */
	failed = fflush(out) != 0 || ferror(out) != 0;
	problem = errno;
	if (fclose(out) != 0 && !failed)
		return false;
	errno = problem;
	return !failed;
}
