/* SPDX-License-Identifier: Apache-2.0 */
/* What a session holds, for the engine's own files. */
#ifndef SOMA_TOOLS_ENGINE_SESSION_H
#define SOMA_TOOLS_ENGINE_SESSION_H

#include "tools/engine/engine.h"
#include "tools/engine/rewind.h"
#include "tools/engine/run.h"
#include "tools/engine/survey.h"

struct replay_session {
	struct trace_reader *reader;
	struct survey survey;
};

/* The device that a replay takes; made where the trace has none. */
enum soma_status session_device(struct replay_session *session, int32_t wanted, struct survey_device **device,
				struct trace_error *error);

/* A plan with what it points to: it is not copied. */
struct session_plan {
	struct run_plan run;
	struct start start;
};

/* For these options, which it keeps; but for their policy, device and `expandable` they may
 * change between its replays. */
enum soma_status session_plan(struct replay_session *session, const struct replay_options *options,
			      struct session_plan *plan, struct trace_error *error);
void session_plan_fini(struct session_plan *plan);

#endif
