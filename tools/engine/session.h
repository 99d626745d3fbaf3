/* SPDX-License-Identifier: Apache-2.0 */
/* What a session holds, for the engine's own files. */
#ifndef SOMA_TOOLS_ENGINE_SESSION_H
#define SOMA_TOOLS_ENGINE_SESSION_H

#include "tools/engine/engine.h"
#include "tools/engine/rewind.h"
#include "tools/engine/survey.h"

struct replay_session {
	struct trace_reader *reader;
	struct survey survey;
};

/* The device that a replay takes; made where the trace has none. */
enum soma_status session_device(struct replay_session *session, int32_t wanted, struct survey_device **device,
				struct trace_error *error);

#endif
