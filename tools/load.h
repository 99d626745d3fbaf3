/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma replay` with a backend, or under load: the options of it, the report, the exit status.
 */
#ifndef SOMA_TOOLS_LOAD_H
#define SOMA_TOOLS_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/command.h"
#include "tools/live/live.h"

struct load_values {
	const char *backend;
	const char *backend_path;
	uint64_t budget;
	int32_t scale, repeat, threads;
	bool twin;
	uint64_t twin_tolerance;
	int32_t twin_used_unit;
	const char *twin_trace;
	/* of the replay as a whole */
	const struct soma_policy *policy;
	uint64_t release_threshold;
	enum replay_complete complete;
	int32_t device;
	bool json, quiet, partial;
};

/* Whether one of these options was given. */
bool load_is_wanted(const struct load_values *values);

/* -1, or the exit status after the error was said. */
int load_check(const struct command *command, const struct load_values *values);

/* path: clean. */
int load_run(const struct load_values *values, const char *path, struct trace_reader *reader);

#endif
