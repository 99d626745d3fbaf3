/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options from a subcommand's table: getopt_long does the reading, this file makes
 * its tables and puts the values where the rows say.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/nearest.h"
#include "lib/base/size.h"
#include "tools/command.h"
#include "tools/trace/clean.h"

#define OPTIONS_MAX 24
/* getopt_long returns a row's index above this, so that it is never a letter. */
#define ROW_BASE 1000

struct getopt_tables {
	struct option longs[OPTIONS_MAX + 1];
	char letters[2 * OPTIONS_MAX + 3];
};

static const struct option_row help_row = { .name = "help", .letter = 'h' };

static void
add_row(struct getopt_tables *tables, size_t *count, const struct option_row *row, int value)
{
	size_t length = strlen(tables->letters);

	tables->longs[*count] = (struct option){
		.name = row->name,
		.has_arg = row->argument != NULL ? required_argument : no_argument,
		.val = value,
	};
	(*count)++;
	if (row->letter == '\0')
		return;
	tables->letters[length++] = row->letter;
	if (row->argument != NULL)
		tables->letters[length] = ':';
}

static void
make_tables(struct getopt_tables *tables, const struct option_row *rows)
{
	size_t count = 0;

	*tables = (struct getopt_tables){ .letters = ":" };
	for (size_t i = 0; rows[i].name != NULL && count < OPTIONS_MAX - 1; i++)
		add_row(tables, &count, &rows[i], ROW_BASE + (int)i);
	add_row(tables, &count, &help_row, 'h');
}

int
usage_error(const struct command *command, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(stderr, "soma%s%s: %s\n", command != NULL ? " " : "", command != NULL ? command->name : "",
		trace_clean(text));
	fprintf(stderr, "Try 'soma %s%s'.\n", command != NULL ? "help " : "--help",
		command != NULL ? command->name : "");
	return EXIT_USAGE;
}

static const char *
option_name_at(const void *rows, size_t index)
{
	return ((const struct option_row *)rows)[index].name;
}

static const char *
choice_at(const void *choices, size_t index)
{
	return ((const char *const *)choices)[index];
}

/* Two options that begin like this; false when there are not two. */
static bool
is_ambiguous(const struct option_row *row, const char *name, const char *begins[2])
{
	unsigned count = 0;

	for (; row->name != NULL && count < 2; row++)
		if (strncmp(row->name, name, strlen(name)) == 0)
			begins[count++] = row->name;
	return count == 2;
}

static int
unknown_option(const struct command *command, const char *text)
{
	char name[64];
	const char *near = NULL, *begins[2];

	if (strncmp(text, "--", 2) == 0) {
		snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
		if (is_ambiguous(command->options, name, begins))
			return usage_error(command, "option '%s' may be '--%s' or '--%s'", text, begins[0],
					   begins[1]);
		near = soma__name_near(name, strlen(name), option_name_at, command->options);
	}
	if (near != NULL)
		return usage_error(command, "unknown option '%s'; did you mean '--%s'?", text, near);
	return usage_error(command, "unknown option '%s'", text);
}

static int
bad_value(const struct command *command, const struct option_row *row, const char *text, const char *expected)
{
	return usage_error(command, "--%s: expected %s, got '%s'", row->name, expected, text);
}

static int
set_choice(const struct command *command, const struct option_row *row, const char *text, unsigned *value)
{
	const char *near;

	for (unsigned i = 0; row->choices[i] != NULL; i++) {
		if (strcmp(row->choices[i], text) == 0) {
			*value = i;
			return -1;
		}
	}
	near = soma__name_near(text, strlen(text), choice_at, row->choices);
	if (near != NULL)
		return usage_error(command, "--%s: '%s' is none of %s; did you mean '%s'?", row->name, text,
				   row->argument, near);
	return bad_value(command, row, text, row->argument);
}

static int
set_number(const struct command *command, const struct option_row *row, const char *text, int32_t *value)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	/* strtol takes blanks and signs before the digits, too. */
	if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || number > INT32_MAX)
		return bad_value(command, row, text, "a number from 0 to 2147483647");
	*value = (int32_t)number;
	return -1;
}

/* What is wrong with a size, its parser says best. */
static int
set_size(const struct command *command, const struct option_row *row, const char *text, uint64_t *value)
{
	const char *problem = soma__size_parse(text, value);
	size_t length = strlen(text);
	char unit[32];

	if (problem == NULL)
		return -1;
	/* "24GB" is a power of ten to some, and of two to others. */
	if (length > 1 && length < sizeof unit && (text[length - 1] == 'B' || text[length - 1] == 'b')) {
		snprintf(unit, sizeof unit, "%.*s", (int)length - 1, text);
		if (soma__size_parse(unit, value) == NULL)
			return usage_error(command, "--%s: '%s' is not a size; did you mean '%s' (powers of 1024)?",
					   row->name, text, unit);
	}
	return usage_error(command, "--%s: \"%.64s\" %s", row->name, text, problem);
}

static int
add_to_list(const struct command *command, const struct option_row *row, const char *text,
	    struct option_list *list)
{
	if (list->count == OPTION_LIST_MAX)
		return usage_error(command, "--%s: given more than %d times", row->name, OPTION_LIST_MAX);
	list->at[list->count++] = text;
	return -1;
}

static int
set_share(const struct command *command, const struct option_row *row, const char *text, double *value)
{
	char *end;
	double number = strtod(text, &end);

	if (text[0] < '.' || text[0] > '9' || *end != '\0' || !(number >= 0 && number <= 1))
		return bad_value(command, row, text, "a fraction from 0 to 1");
	*value = number;
	return -1;
}

static int
set_value(const struct command *command, const struct option_row *row, const char *text, void *values)
{
	void *field = (char *)values + row->offset;

	switch (row->kind) {
	case OPTION_FLAG:
		*(bool *)field = true;
		return -1;
	case OPTION_SIZE:
		return set_size(command, row, text, field);
	case OPTION_NUMBER:
		return set_number(command, row, text, field);
	case OPTION_TEXT:
		*(const char **)field = text;
		return -1;
	case OPTION_CHOICE:
		return set_choice(command, row, text, field);
	case OPTION_LIST:
		return add_to_list(command, row, text, field);
	case OPTION_SHARE:
		return set_share(command, row, text, field);
	}
	return usage_error(command, "--%s cannot be set", row->name);
}

/* What getopt complains of: a long option is the argument before optind, a letter
 * may stand in the middle of one. */
static const char *
offending(char **argv, char *buffer)
{
	if (optopt == 0 || optopt >= ROW_BASE)
		return argv[optind - 1];
	buffer[0] = '-';
	buffer[1] = (char)optopt;
	buffer[2] = '\0';
	return buffer;
}

/* "--flag=value" for an option without a value sets optopt to the row. */
static int
refuse(const struct command *command, int code, char **argv)
{
	char letter[3];
	const char *text = offending(argv, letter);

	if (code == ':')
		return usage_error(command, "option '%s' needs a value", text);
	if (optopt >= ROW_BASE)
		return usage_error(command, "option '--%s' takes no value",
				   command->options[optopt - ROW_BASE].name);
	return unknown_option(command, text);
}

static const struct option_row *
row_of(const struct option_row *rows, int code)
{
	if (code >= ROW_BASE)
		return &rows[code - ROW_BASE];
	while (rows->name != NULL && rows->letter != code)
		rows++;
	return rows;
}

int
options_parse(const struct command *command, int argc, char **argv, void *values, int *first)
{
	struct getopt_tables tables;
	int code, end;

	make_tables(&tables, command->options);
	optind = 0;
	opterr = 0;
	while ((code = getopt_long(argc, argv, tables.letters, tables.longs, NULL)) != -1) {
		if (code == '?' || code == ':')
			return refuse(command, code, argv);
		if (code == 'h') {
			help_print_command(command);
			return EXIT_FINE;
		}
		end = set_value(command, row_of(command->options, code), optarg, values);
		if (end >= 0)
			return end;
	}
	*first = optind;
	return -1;
}
