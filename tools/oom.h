/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `soma oom` finds (oom.c), for its reports (oom_report.c).
 */
#ifndef SOMA_TOOLS_OOM_H
#define SOMA_TOOLS_OOM_H

#include <jansson.h>

#include "tools/command.h"
#include "tools/engine/autopsy.h"
#include "tools/engine/engine.h"
#include "tools/engine/fit.h"

#define OOM_REMEDIES_MAX 32

struct oom_values {
	uint64_t capacity;
	unsigned policy, complete;
	int32_t device, limit;
	bool json;
};

/* What was tried, and passed. */
struct oom_remedy {
	char text[96];
	const char *policy; /* another one, which is no setting of PyTorch's; or NULL */
	uint64_t capacity, reserved;
};

struct oom {
	const struct command *command;
	const struct oom_values *values;
	const char *path;
	struct trace_reader *reader;
	struct replay_session *session;
	struct trace_error error;
	const struct soma_policy *policy;
	int32_t device;
	/* Under which it fails, and remedies are tried: a capacity that was asked for, or what there was for the process
	 * when the trace records the failure: of the whole device, others may have a part. */
	uint64_t capacity;
	bool of_process;
	struct autopsy autopsy;
	struct replay_recorded recorded;
	uint64_t elsewhere; /* failures that the trace records of other devices, where none was asked for */
	const char *reason;
	uint64_t short_by;
	uint64_t outside; /* bytes that others have of the device, whose size --capacity told */
	bool reproduced;  /* the replay under `capacity` fails, too */
	struct oom_remedy remedies[OOM_REMEDIES_MAX];
	size_t remedy_count, tried;
	uint64_t fits; /* the capacity at which it passes; 0: none was found */
	enum fit_claim claim;
	/* After the failure the trace has more live than the capacity, each block rounded up as every
	 * policy does; 0: it has not. */
	uint64_t later_live, later_event;
	bool later_requested; /* also as requested */
};

struct oom_share {
	char *name;
	uint64_t bytes, blocks;
};

struct oom_shares {
	struct oom_share *at;
	size_t count;
};

/* By frame as the trace names them, or by tag: without the place.  The most bytes first. */
struct oom_shares oom_shares(const struct oom *oom, bool by_tag);
void oom_shares_fini(struct oom_shares *shares);

/* The report, also where nothing failed. */
void oom_print(const struct oom *oom);
json_t *oom_object(const struct oom *oom, bool truncated);

#endif
