/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the subcommands that answer a question about a trace have in common: opening it,
 * saying what went wrong, and pieces of JSON.
 */
#ifndef SOMA_TOOLS_ANSWER_H
#define SOMA_TOOLS_ANSWER_H

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/command.h"
#include "tools/engine/engine.h"
#include "tools/report/values.h"
#include "tools/trace/trace.h"

/* The operand, where there must be one.  NULL: the error was printed, *status is it. */
const char *answer_operand(const struct command *command, int argc, char **argv, int first, int *status);

/* NULL: the error was printed; the status is EXIT_INPUT.  Whatever is asked, a trace without any allocation
 * is an error when it has been read. */
struct trace_reader *answer_open(const struct command *command, const char *path);

/* The same, with the error for the caller. */
struct trace_reader *answer_try_open(const char *path, unsigned upper, struct trace_error *error);

/* The same, with --upper as an index of upper_names. */
struct trace_reader *answer_open_upper(const struct command *command, const char *path, unsigned upper);

/* The trace will be read many times: its events are kept, unless there are more than ten million. */
void answer_keep(struct trace_reader *reader);

/* Where the trace ends in the middle, which is said unless it is taken as --partial: EXIT_BAD_NEWS;
 * else EXIT_FINE. */
int answer_truncated(const struct command *command, bool truncated, const struct trace_error *error,
		     bool partial);

/* The same for a session, never taken as partial: true where it is truncated. */
bool answer_session_truncated(const struct command *command, const struct replay_session *session);

/* Whether what is to be written is the trace that is read, a regular file; "-" is standard output or input. */
bool answer_is_same_file(const char *output, const char *trace);

/* "soma NAME: TEXT", and EXIT_INPUT. */
int answer_error(const struct command *command, const char *text);

/* What the engine returned, as an error with the path where its text lacks one. */
int answer_engine_error(const struct command *command, const char *path, enum soma_status status,
			const struct trace_error *error);

/* A preset by its index in replay_policy_names; NULL: auto. */
const struct soma_policy *answer_policy(unsigned index);

/* Options as `soma replay` has them by default. */
struct replay_options answer_options(void);

/* Sizes above what a model can reserve are refused: -1, or the exit status. */
int answer_check_size(const struct command *command, const char *option, uint64_t size);

/* "event 12", or "before the first event": `buffer` has ANSWER_EVENT_MAX bytes. */
#define ANSWER_EVENT_MAX 48
char *answer_event_text(char *buffer, uint64_t index);

/* A stream as people read it: small numbers are decimal, handles are not. */
#define ANSWER_STREAM_MAX 24
char *answer_stream_text(char *buffer, uint64_t stream);

/* What a trace says failed: "the request of 512 MiB that failed at event 47", or of several the first and the
 * last: `buffer` has ANSWER_RECORDED_MAX bytes. */
#define ANSWER_RECORDED_MAX 256
char *answer_recorded(char *buffer, const struct replay_recorded *recorded);

/* A holder's name, clean and never empty; the caller frees it. */
char *answer_holder(const struct trace_reader *reader, trace_name name);

/* Takes " (FILE:LINE)" off the end of a name. */
void answer_drop_place(char *name);

/* ---- JSON ---- */

json_t *answer_text(const char *text);                                   /* cleaned */
json_t *answer_name(const struct trace_reader *reader, trace_name name); /* null for none */

/* The same for what two counts differ by: it may be below 0. */
json_t *answer_difference(uint64_t after, uint64_t before);

/* Prints and releases it.  The exit status, or EXIT_INPUT when it could not be written. */
int answer_print(const struct command *command, json_t *object, int status);

#endif
