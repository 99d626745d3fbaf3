/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays of traces that a test writes down: lines of soma's own format, without the
 * header, into a temporary file, through the reader and the engine.
 */
#ifndef SOMA_TESTS_REPLAY_FIXTURE_H
#define SOMA_TESTS_REPLAY_FIXTURE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit.h"
#include "tools/engine/engine.h"
#include "tools/trace/trace.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define TRACE_HEADER "time,thread,op,device,stream,ptr,size,tag,generation,detail\n"

struct replayed {
	char path[64];
	struct trace_reader *reader;
	struct replay_options options;
	struct replay_result result;
	enum soma_status status;
	struct trace_error error;
};

static inline struct replay_options
options_for(const char *policy)
{
	return (struct replay_options){
		.policy = policy != NULL ? soma_policy_preset(policy) : NULL,
		.release_threshold = UINT64_MAX,
		.device = REPLAY_DEVICE_ANY,
	};
}

static inline void
replay_file(struct replayed *replayed, const char *path, struct replay_options options)
{
	*replayed = (struct replayed){ .options = options };
	trace_open(path, NULL, &replayed->reader, &replayed->error);
	ck_assert_msg(replayed->reader != NULL, "%s", replayed->error.text);
	replayed->status =
		replay_run(replayed->reader, &replayed->options, &replayed->result, &replayed->error);
}

/* Writes the lines to a new file and puts its name into `path`. */
static inline void
write_lines(char path[64], const char *lines)
{
	FILE *file;

	strcpy(path, "check_replay.XXXXXX");
	file = fdopen(mkstemp(path), "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(TRACE_HEADER, file), 0);
	ck_assert_int_ge(fputs(lines, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static inline void
replay_lines_raw(struct replayed *replayed, const char *lines, struct replay_options options)
{
	char path[sizeof replayed->path];

	write_lines(path, lines);
	replay_file(replayed, path, options);
	strcpy(replayed->path, path);
}

/* One that must go well. */
static inline void
replay_lines(struct replayed *replayed, const char *lines, struct replay_options options)
{
	replay_lines_raw(replayed, lines, options);
	ck_assert_msg(replayed->status == SOMA_STATUS_OK, "%s", replayed->error.text);
}

static inline void
replayed_end(struct replayed *replayed)
{
	replay_result_fini(&replayed->result);
	trace_close(replayed->reader);
	if (replayed->path[0] != '\0')
		unlink(replayed->path);
}

#endif
