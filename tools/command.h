/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a subcommand is: one row, with its options and its texts.  `soma --help`,
 * `soma help SUBCOMMAND` and the man page soma(1) are all printed from these rows,
 * so they cannot differ.  Adding a subcommand is one file and one row in commands.c.
 */
#ifndef SOMA_TOOLS_COMMAND_H
#define SOMA_TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_status {
	EXIT_FINE = 0,
	EXIT_BAD_NEWS = 1, /* the question was answered, and the answer is bad */
	EXIT_USAGE = 2,
	EXIT_INPUT = 3, /* the input, or the system, did not let us answer */
};

enum option_kind {
	OPTION_FLAG,   /* bool */
	OPTION_SIZE,   /* uint64_t, bytes */
	OPTION_NUMBER, /* int32_t, 0 or more */
	OPTION_TEXT,   /* const char * */
	OPTION_CHOICE, /* unsigned: the index in `choices` */
	OPTION_LIST,   /* struct option_list: may be given more than once */
	OPTION_SHARE,  /* double, 0 to 1, or -1 where it was not given */
};

struct option_row {
	const char *name; /* long, without the dashes; NULL ends a table */
	char letter;      /* 0: no short form */
	enum option_kind kind;
	size_t offset;        /* of its value in the subcommand's struct */
	const char *argument; /* as the help shows it; NULL for a flag */
	const char *const *choices;
	const char *help; /* one paragraph */
};

#define OPTION_LIST_MAX 64

struct option_list {
	const char *at[OPTION_LIST_MAX];
	size_t count;
};

/* A variable of the environment that is read. */
struct variable_row {
	const char *name; /* NULL ends a table */
	const char *help;
};

struct command {
	const char *name;
	const char *summary;           /* one line */
	const char *operands;          /* after the options in the synopsis; "" for none */
	const char *const *paragraphs; /* the description; NULL ends */
	const struct option_row *options;
	int (*run)(const struct command *command, int argc, char **argv);
};

/* The table; .name NULL ends it. */
extern const struct command commands[];

/* What is the same for all of them, for the man page. */
extern const char *const soma_summary;
extern const char *const soma_paragraphs[]; /* NULL ends */
extern const struct option_row global_options[];
extern const char *const exit_paragraphs[];
extern const struct variable_row environment_rows[];

const struct command *command_find(const char *name);

/* The error for a word that is no subcommand: EXIT_USAGE. */
int unknown_command(const char *word);

/*
 * Reads the options into `values` (whose fields the rows name) and leaves argv's
 * operands from *first on.  -1: go on.  Otherwise the exit status to end with: help
 * was printed, or the error was.
 */
int options_parse(const struct command *command, int argc, char **argv, void *values, int *first);

/* "soma replay: MESSAGE", a pointer to the help, and EXIT_USAGE. */
int usage_error(const struct command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

void help_print_all(void);
void help_print_command(const struct command *command);
void help_print_mdoc(void);

/* Prints a paragraph from column `column` on, where the cursor is, wrapped, with following lines indented to
 * `indent`. */
void help_wrapped(const char *text, size_t column, size_t indent);

/* A paragraph of a man page: wrapped, and every sentence on a line of its own, so that mdoc spaces it. */
void help_mdoc_text(const char *text);

/* "exclusive", "inclusive": the choices of --upper. */
extern const char *const upper_names[];

/* Of --policy ("auto" first), --expandable and --axis. */
extern const char *const replay_policy_names[];
extern const char *const replay_expandable_names[];
extern const char *const replay_axis_names[];

int command_replay(const struct command *command, int argc, char **argv);
int command_stats(const struct command *command, int argc, char **argv);
int command_check(const struct command *command, int argc, char **argv);
int command_diff(const struct command *command, int argc, char **argv);
int command_race(const struct command *command, int argc, char **argv);
int command_fit(const struct command *command, int argc, char **argv);
int command_whatif(const struct command *command, int argc, char **argv);
int command_oom(const struct command *command, int argc, char **argv);
int command_info(const struct command *command, int argc, char **argv);
int command_help(const struct command *command, int argc, char **argv);
int command_plot(const struct command *command, int argc, char **argv);
int command_convert(const struct command *command, int argc, char **argv);

extern const char *const replay_paragraphs[];
extern const struct option_row replay_options[];
extern const char *const stats_paragraphs[];
extern const struct option_row stats_options[];
extern const char *const check_paragraphs[];
extern const struct option_row check_options[];
extern const char *const diff_paragraphs[];
extern const struct option_row diff_options[];
extern const char *const race_paragraphs[];
extern const struct option_row race_options[];
extern const char *const fit_paragraphs[];
extern const struct option_row fit_options[];
extern const char *const whatif_paragraphs[];
extern const struct option_row whatif_options[];
extern const char *const oom_paragraphs[];
extern const struct option_row oom_options[];
extern const char *const info_paragraphs[];
extern const struct option_row info_options[];
extern const char *const plot_paragraphs[];
extern const struct option_row plot_options[];
extern const char *const convert_paragraphs[];
extern const struct option_row convert_options[];
extern const char *const help_paragraphs[];
extern const struct option_row help_options[];

#endif
