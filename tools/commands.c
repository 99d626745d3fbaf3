/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of subcommands, and the texts that belong to none of them.
 */
#include <string.h>
#include <sys/stat.h>

#include "lib/base/nearest.h"
#include "tools/command.h"

const char *const soma_summary = "stream-ordered memory allocation, replayed and explained";

const char *const soma_paragraphs[] = {
	"Events are numbered from 0, in the order of the trace and over all of its devices; lines that are no events "
	"have no number. \"Before the first event\" is what was there when the recording began.",
	"Sizes in reports are in powers of two (1 KiB is 1024 bytes), with three digits; --json has the bytes. A SIZE "
	"that is given may end in K, M, G or T, which are powers of two as well.",
	NULL,
};

const struct command commands[] = {
	{ "replay", "replay an allocation trace and report its memory", "TRACE", replay_paragraphs,
	  replay_options, command_replay },
	{ "stats", "count sizes, lifetimes, rates, streams and holders of a trace", "TRACE", stats_paragraphs,
	  stats_options, command_stats },
	{ "check", "compare a trace's memory with limits", "TRACE", check_paragraphs, check_options,
	  command_check },
	{ "diff", "show what grew from one trace to another", "A B", diff_paragraphs, diff_options,
	  command_diff },
	{ "race", "find uses, frees and reuses of memory that nothing puts in order", "TRACE",
	  race_paragraphs, race_options, command_race },
	{ "fit", "find how much memory a trace needs, under each policy and at best", "TRACE", fit_paragraphs,
	  fit_options, command_fit },
	{ "whatif", "compare settings of an allocator on a trace", "TRACE", whatif_paragraphs, whatif_options,
	  command_whatif },
	{ "oom", "explain why a trace ran out of memory, and what would have helped", "TRACE", oom_paragraphs,
	  oom_options, command_oom },
	{ "convert", "write a trace in another format", "IN OUT", convert_paragraphs, convert_options,
	  command_convert },
	{ "plot", "draw a trace's memory: timeline, map, sizes; a picture or a page", "TRACE",
	  plot_paragraphs, plot_options, command_plot },
	{ "info", "show the version, how it was built, and what this machine offers", "", info_paragraphs,
	  info_options, command_info },
	{ "help", "show help for soma or for a subcommand", "[SUBCOMMAND]", help_paragraphs, help_options,
	  command_help },
	{ .name = NULL },
};

const struct option_row global_options[] = {
	{ .name = "help", .letter = 'h', .help = "Print this help." },
	{ .name = "version", .letter = 'V', .help = "Print the version." },
	{ .name = NULL },
};

const struct variable_row environment_rows[] = {
	{ "TMPDIR",
	  "Where the temporary file is made that keeps a trace which can be read only once, such as one "
	  "from a pipe. It has no name and is gone with the command. The default is /tmp." },
	{ "SOMA_BACKEND_PATH", "Folders to look for backends in, with colons between them: after those of "
			       "--backend-path, before the "
			       "installed one. A command that was not installed looks behind them for the backends "
			       "that were built with it." },
	{ .name = NULL },
};

const char *const exit_paragraphs[] = {
	"0: the answer is fine.",
	"1: the answer is bad news: out of memory under the given capacity or budget or in the trace itself "
	"(oom), recorded addresses that were not reproduced, accounts that differ, something that a guard "
	"reported, a limit that is passed, traces that differ, a race, or a truncated trace without "
	"--partial.",
	"2: wrong usage: an unknown subcommand, option or value.",
	"3: the input could not be read, has no allocation in it, or needs more memory than the machine has; a "
	"backend could not be used; or the output could not be written.",
	NULL,
};

const struct command *
command_find(const char *name)
{
	for (const struct command *command = commands; command->name != NULL; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

static const char *
name_at(const void *table, size_t index)
{
	return ((const struct command *)table)[index].name;
}

static const char *
option_at(const void *table, size_t index)
{
	return ((const struct option_row *)table)[index].name;
}

/* Whoever gives a trace alone most likely wants it replayed. */
static bool
is_file(const char *word)
{
	struct stat file;

	return stat(word, &file) == 0 && !S_ISDIR(file.st_mode);
}

int
unknown_command(const char *word)
{
	const char *near = word[0] != '-' ? soma__name_near(word, strlen(word), name_at, commands) : NULL;

	if (strncmp(word, "--", 2) == 0)
		near = soma__name_near(word + 2, strlen(word + 2), option_at, global_options);
	if (word[0] == '-' && near != NULL)
		return usage_error(NULL, "unknown option '%s'; did you mean '--%s'?", word, near);
	if (word[0] == '-')
		return usage_error(NULL, "unknown option '%s'", word);
	if (is_file(word))
		return usage_error(NULL, "no subcommand '%s'; of a trace, say what is wanted: 'soma replay %s'", word, word);
	if (near != NULL)
		return usage_error(NULL, "no subcommand '%s'; did you mean '%s'?", word, near);
	return usage_error(NULL, "no subcommand '%s'", word);
}
