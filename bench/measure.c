/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spawning peers and keeping their results.  Nothing is timed here: a peer measures
 * its own thread's CPU time.  The cycle of pattern c is handed over as an unnamed
 * file that the peers inherit.
 */
#include "config.h"

#include "bench/measure.h"

#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/rounds.h"
#include "bench/trace_ops.h"

/* mimalloc keeps its free lists inside the blocks: a page of each gets touched. */
#define TOUCHED_PER_BLOCK 8192

extern char **environ;

struct measurement {
	const struct measure_options *options;
	struct measured *measured;
	bool absent[CONTENDER_COUNT];
	char ops[32]; /* the cycle's file as the peers see it; "" without one */
};

struct command {
	char *argv[20];
	char text[20][64];
	char path[1024];
	int count;
};

static void
leave_out(struct measured *measured, const char *line)
{
	measured->left_out[measured->left_out_count++] = line;
}

static void
peer_path(const struct measure_options *options, enum contender_id who, char path[1024])
{
	snprintf(path, 1024, "%s/peer-%s", options->peers, contenders[who].executable);
}

static void
find_peers(struct measurement *m)
{
	static const char *const reasons[CONTENDER_COUNT] = {
		[CONTENDER_JEMALLOC] = "jemalloc's malloc: configure found no libjemalloc to link",
		[CONTENDER_MIMALLOC] = "mimalloc's malloc: configure found no libmimalloc to link",
		[CONTENDER_TREE] = "the ordered set: configure found no C++ compiler",
		[CONTENDER_SOMA] = "the model: peer-soma is not built",
	};
	char path[1024];

	for (unsigned who = 0; who < CONTENDER_COUNT; who++) {
		peer_path(m->options, who, path);
		m->absent[who] = access(path, X_OK) != 0;
		if (m->absent[who] && reasons[who] != NULL)
			leave_out(m->measured, reasons[who]);
	}
}

static void
load_cycle(struct measurement *m)
{
	size_t count;
	struct bench_op *ops = m->options->trace != NULL ? trace_ops_read(m->options->trace, &count) : NULL;
	int file;

	if (ops == NULL) {
		leave_out(m->measured, "pattern c: no trace to repeat");
		return;
	}
	file = memfd_create("cycle", 0);
	if (file >= 0 && write(file, ops, count * sizeof *ops) == (ssize_t)(count * sizeof *ops))
		snprintf(m->ops, sizeof m->ops, "/proc/self/fd/%d", file);
	else
		leave_out(m->measured, "pattern c: no memory for the trace");
	free(ops);
}

static uint64_t
memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[128];
	uint64_t kib = 0;

	if (file == NULL)
		return UINT64_MAX;
	while (fgets(line, sizeof line, file) != NULL)
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	fclose(file);
	return kib << 10;
}

static bool
fits_in_memory(const struct measurement *m, enum contender_id who, uint64_t live)
{
	if (who != CONTENDER_MIMALLOC || live * TOUCHED_PER_BLOCK < memory_available())
		return true;
	leave_out(m->measured, "mimalloc's malloc at 1e6 live: it touches its blocks, too little memory");
	return false;
}

static void
add(struct command *command, const char *option, const char *value)
{
	command->argv[command->count++] = (char *)(uintptr_t)option;
	if (value != NULL)
		command->argv[command->count++] = (char *)(uintptr_t)value;
	command->argv[command->count] = NULL;
}

static void
add_number(struct command *command, const char *option, uint64_t value)
{
	char *text = command->text[command->count];

	snprintf(text, sizeof command->text[0], "%" PRIu64, value);
	add(command, option, text);
}

static void
make_command(const struct measurement *m, const struct scenario *scenario, enum contender_id who,
	     struct command *command)
{
	const struct contender *contender = &contenders[who];
	unsigned divisor = m->options->quick ? 10 : 1;

	command->count = 0;
	peer_path(m->options, who, command->path);
	add(command, command->path, NULL);
	snprintf(command->text[0], sizeof command->text[0], "%c", scenario->pattern);
	add(command, "--pattern", command->text[0]);
	add_number(command, "--cap", scenario->cap);
	add_number(command, "--live", (scenario->live + divisor - 1) / divisor);
	add_number(command, "--steps", scenario->steps / divisor);
	add_number(command, "--streams", contender->streams);
	add_number(command, "--sync", contender->sync_every);
	if (contender->variant != NULL)
		add(command, "--variant", contender->variant);
	if (scenario->pattern == 'c')
		add(command, "--ops", m->ops);
	if (scenario->track)
		add(command, "--track", NULL);
}

/* Runs it and keeps its first line.  Returns its wait status, -1 when it did not run. */
static int
run_command(struct command *command, char *line, int size)
{
	posix_spawn_file_actions_t actions;
	int ends[2], status = -1, error;
	pid_t pid;
	FILE *output;

	if (pipe(ends) != 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	error = posix_spawn(&pid, command->path, &actions, NULL, command->argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	output = fdopen(ends[0], "r");
	line[0] = '\0';
	if (error == 0 && output != NULL && fgets(line, size, output) == NULL)
		line[0] = '\0';
	if (output != NULL)
		fclose(output);
	if (error != 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

static bool
keep(const char *line, const struct scenario *scenario, uint64_t live, struct figures *figures)
{
	uint64_t pairs, ns, peak_address, peak_live, resident;

	if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &pairs, &ns,
		   &peak_address, &peak_live, &resident) != 5 ||
	    pairs == 0)
		return false;
	figures->ns[figures->count++] = (double)ns / (double)pairs;
	if (scenario->track && peak_live > 0)
		figures->peak_ratio = (double)peak_address / (double)peak_live;
	if (scenario->pattern == 'b' && live >= 10000)
		figures->bytes_per_block = (double)resident / (double)live;
	return true;
}

static void
say_failure(const struct command *command, const struct scenario *scenario, int status)
{
	fprintf(stderr, "\nbench: %s: %s: ", scenario->text, command->path);
	if (status == -1)
		fprintf(stderr, "could not be run\n");
	else if (WIFSIGNALED(status))
		fprintf(stderr, "ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 0)
		fprintf(stderr, "exit status %d\n", WEXITSTATUS(status));
	else
		fprintf(stderr, "printed no result\n");
	for (int i = 0; i < command->count; i++)
		fprintf(stderr, "%s%s", command->argv[i], i + 1 < command->count ? " " : "\n");
}

static bool
measure_once(struct measurement *m, enum scenario_id where, enum contender_id who)
{
	const struct scenario *scenario = &scenarios[where];
	uint64_t live = m->options->quick ? scenario->live / 10 : scenario->live;
	struct command command;
	char line[256];
	int status;

	make_command(m, scenario, who, &command);
	status = run_command(&command, line, sizeof line);
	if (status == 0 && keep(line, scenario, live, &m->measured->at[where][who]))
		return true;
	say_failure(&command, scenario, status);
	return false;
}

static bool
measure_scenario(struct measurement *m, enum scenario_id where)
{
	const struct scenario *scenario = &scenarios[where];
	unsigned repeats = scenario->track ? 1 : m->options->repeats;
	bool runs[CONTENDER_COUNT];

	for (unsigned who = 0; who < CONTENDER_COUNT; who++)
		runs[who] = (scenario->contenders >> who & 1) != 0 && !m->absent[who] &&
			    fits_in_memory(m, who, scenario->live);
	for (unsigned repeat = 0; repeat < repeats; repeat++) {
		if (isatty(STDERR_FILENO))
			fprintf(stderr, "\r\033[K%s: %u of %u", scenario->text, repeat + 1, repeats);
		for (unsigned who = 0; who < CONTENDER_COUNT; who++)
			if (runs[who] && !measure_once(m, where, who))
				return false;
	}
	for (unsigned who = 0; who < CONTENDER_COUNT; who++) {
		struct figures *figures = &m->measured->at[where][who];

		rounds_sort(figures->ns, figures->count);
	}
	return true;
}

static bool
wanted(const struct measurement *m, const struct scenario *scenario)
{
	if (scenario->pattern == 'c' && m->ops[0] == '\0')
		return false;
	return m->options->only == NULL ||
	       strncmp(scenario->text, m->options->only, strlen(m->options->only)) == 0;
}

bool
measure_plan(const struct measure_options *options, struct measured *measured)
{
	struct measurement m = { .options = options, .measured = measured };
	bool fine = true;

	memset(measured, 0, sizeof *measured);
	find_peers(&m);
	load_cycle(&m);
	for (unsigned where = 0; fine && where < SCENARIO_COUNT; where++)
		if (wanted(&m, &scenarios[where]))
			fine = measure_scenario(&m, where);
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	return fine;
}

double
figures_median(const struct figures *figures)
{
	unsigned middle = figures->count / 2;

	if (figures->count == 0)
		return 0;
	if (figures->count % 2 == 1)
		return figures->ns[middle];
	return (figures->ns[middle - 1] + figures->ns[middle]) / 2;
}
