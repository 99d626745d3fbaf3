/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma help`: the tables of commands.c as text, and as the man page.
 */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/conf.h"

#define WIDTH 79
#define HELP_COLUMN 30
#define NAME_COLUMN 14

const char *const help_paragraphs[] = {
	"Prints what soma does, or what one subcommand does with all its options.",
	NULL,
};

const struct option_row help_options[] = {
	{ .name = NULL },
};

void
help_wrapped(const char *text, size_t column, size_t indent)
{
	while (*text != '\0') {
		size_t length = strcspn(text, " ");

		if (column > indent && column + 1 + length > WIDTH) {
			printf("\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", (int)length, text);
		column += length;
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void
print_option(const struct option_row *row)
{
	char left[96];
	int length;

	if (row->letter != '\0')
		length = snprintf(left, sizeof left, "  -%c, --%s", row->letter, row->name);
	else
		length = snprintf(left, sizeof left, "      --%s", row->name);
	if (row->argument != NULL)
		snprintf(left + length, sizeof left - (size_t)length, "=%s", row->argument);
	printf("%-*s", HELP_COLUMN - 2, left);
	if (strlen(left) > HELP_COLUMN - 2)
		printf("\n%*s", HELP_COLUMN, "");
	else
		printf("  ");
	help_wrapped(row->help, HELP_COLUMN, HELP_COLUMN);
}

void
help_print_all(void)
{
	printf("Usage: soma SUBCOMMAND [OPTION...] [ARGUMENT...]\n"
	       "soma: %s\n\nSubcommands:\n",
	       soma_summary);
	for (const struct command *command = commands; command->name != NULL; command++)
		printf("  %-*s%s\n", NAME_COLUMN - 2, command->name, command->summary);
	printf("\nOptions:\n");
	for (const struct option_row *row = global_options; row->name != NULL; row++)
		print_option(row);
	printf("\n'soma help SUBCOMMAND' shows its options.\n");
	for (size_t i = 0; soma_paragraphs[i] != NULL; i++) {
		putchar('\n');
		help_wrapped(soma_paragraphs[i], 0, 0);
	}
	printf("\nEnvironment:\n");
	for (const struct variable_row *row = environment_rows; row->name != NULL; row++) {
		printf("  %-*s", NAME_COLUMN - 2, row->name);
		if (strlen(row->name) > NAME_COLUMN - 4)
			printf("\n%*s", NAME_COLUMN, "");
		help_wrapped(row->help, NAME_COLUMN, NAME_COLUMN);
	}
	printf("\nExit status:\n");
	for (size_t i = 0; exit_paragraphs[i] != NULL; i++) {
		printf("  %.1s  ", exit_paragraphs[i]);
		help_wrapped(exit_paragraphs[i] + 3, 5, 5);
	}
}

void
help_print_command(const struct command *command)
{
	bool has_options = command->options->name != NULL;

	printf("Usage: soma %s%s%s%s\n", command->name, has_options ? " [OPTION...]" : "",
	       command->operands[0] != '\0' ? " " : "", command->operands);
	for (size_t i = 0; command->paragraphs[i] != NULL; i++) {
		putchar('\n');
		help_wrapped(command->paragraphs[i], 0, 0);
	}
	printf("\nOptions:\n");
	for (const struct option_row *row = command->options; row->name != NULL; row++)
		print_option(row);
	print_option(global_options);
}

/* ---- the man page -------------------------------------------------------- */

/* mdoc takes a line that starts with '.' or '\'' and a backslash for its own. */
static size_t
mdoc_word(const char *word, size_t length, bool starts_line)
{
	size_t column = 0;

	if (starts_line && (word[0] == '.' || word[0] == '\''))
		column += (size_t)printf("\\&");
	for (size_t i = 0; i < length; i++) {
		if (word[i] == '\\')
			column += (size_t)printf("\\e");
		else if (word[i] == '-' && i == 0)
			column += (size_t)printf("\\-");
		else
			column += (size_t)printf("%c", word[i]);
	}
	return column;
}

void
help_mdoc_text(const char *text)
{
	size_t column = 0;

	while (*text != '\0') {
		size_t length = strcspn(text, " ");
		bool sentence = column > 0 && text[-2] == '.' && isupper((unsigned char)text[0]);

		if (column > 0 && (sentence || column + length > WIDTH - 4)) {
			putchar('\n');
			column = 0;
		} else if (column > 0) {
			column += (size_t)printf(" ");
		}
		column += mdoc_word(text, length, column == 0);
		text += length;
		text += strspn(text, " ");
	}
	putchar('\n');
}

static void
mdoc_option(const struct option_row *row)
{
	printf(".It");
	if (row->letter != '\0')
		printf(" Fl %c ,", row->letter);
	printf(" Fl \\-%s", row->name);
	if (row->argument != NULL)
		printf(" Ns = Ns Ar %s", row->argument);
	putchar('\n');
	help_mdoc_text(row->help);
}

static void
mdoc_options(const struct option_row *rows)
{
	if (rows->name == NULL)
		return;
	printf(".Bl -tag -width Ds\n");
	for (; rows->name != NULL; rows++)
		mdoc_option(rows);
	printf(".El\n");
}

static void
mdoc_command(const struct command *command)
{
	printf(".Ss soma %s\n.Nm\n.Cm %s\n", command->name, command->name);
	if (command->options->name != NULL)
		printf(".Op Ar option ...\n");
	if (command->operands[0] == '[')
		printf(".Op Ar %.*s\n", (int)strlen(command->operands) - 2, command->operands + 1);
	else if (command->operands[0] != '\0')
		printf(".Ar %s\n", command->operands);
	for (size_t i = 0; command->paragraphs[i] != NULL; i++) {
		printf(".Pp\n");
		help_mdoc_text(command->paragraphs[i]);
	}
	mdoc_options(command->options);
}

static void
mdoc_environment(void)
{
	printf(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n");
	for (const struct variable_row *row = environment_rows; row->name != NULL; row++) {
		printf(".It Ev %s\n", row->name);
		help_mdoc_text(row->help);
	}
	printf(".El\n");
}

static void
mdoc_exit_status(void)
{
	printf(".Sh EXIT STATUS\n.Bl -tag -width Ds\n");
	for (size_t i = 0; exit_paragraphs[i] != NULL; i++) {
		const char *text = strchr(exit_paragraphs[i], ':');

		printf(".It %.*s\n", (int)(text - exit_paragraphs[i]), exit_paragraphs[i]);
		help_mdoc_text(text + 2);
	}
	printf(".El\n");
}

void
help_print_mdoc(void)
{
	printf(".\\\" SPDX-License-Identifier: Apache-2.0\n"
	       ".\\\" Printed by the command itself from its tables: make update-man\n"
	       ".Dd " SOMA_DATE "\n.Dt SOMA 1\n.Os\n"
	       ".Sh NAME\n.Nm soma\n.Nd %s\n"
	       ".Sh SYNOPSIS\n.Nm\n.Ar subcommand\n.Op Ar option ...\n.Op Ar argument ...\n"
	       ".Nm\n.Fl \\-help | \\-version\n.Sh DESCRIPTION\n.Nm\nhas these subcommands:\n"
	       ".Bl -tag -width replay\n",
	       soma_summary);
	for (const struct command *command = commands; command->name != NULL; command++) {
		printf(".It Cm %s\n", command->name);
		help_mdoc_text(command->summary);
	}
	printf(".El\n.Pp\nEvery subcommand takes\n.Fl \\-help .\n");
	for (size_t i = 0; soma_paragraphs[i] != NULL; i++) {
		printf(".Pp\n");
		help_mdoc_text(soma_paragraphs[i]);
	}
	printf(".Sh SUBCOMMANDS\n");
	for (const struct command *command = commands; command->name != NULL; command++)
		mdoc_command(command);
	mdoc_environment();
	mdoc_exit_status();
	printf(".Sh SEE ALSO\n.Xr soma_model 3 ,\n.Xr soma_runtime 3 ,\n.Xr soma-trace 5 ,\n.Xr soma.conf 5\n");
}

/* ---- soma help ----------------------------------------------------------- */

int
command_help(const struct command *command, int argc, char **argv)
{
	const struct command *topic;
	int first, end;

	if (argc == 2 && strcmp(argv[1], "--mdoc") == 0) {
		help_print_mdoc();
		return EXIT_FINE;
	}
	if (argc == 3 && strcmp(argv[1], "--mdoc") == 0 && strcmp(argv[2], "soma.conf") == 0)
		return conf_print_mdoc() ? EXIT_FINE : EXIT_INPUT;
	end = options_parse(command, argc, argv, NULL, &first);
	if (end >= 0)
		return end;
	if (argc - first > 1)
		return usage_error(command, "expected one subcommand, got '%s' too", argv[first + 1]);
	if (first == argc) {
		help_print_all();
		return EXIT_FINE;
	}
	topic = command_find(argv[first]);
	if (topic == NULL)
		return unknown_command(argv[first]);
	help_print_command(topic);
	return EXIT_FINE;
}
