/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the blocks of inferred size really end.
 *
 * A remainder that is too small to be split off stays with its block, and a free says
 * nothing of it.  Before a live block start_rebuild() sees it; before free memory it
 * hides.  But an allocation takes the front of a free block: the first one behind
 * such a block, while that is live, shows where the free memory begins.
 */
#ifndef SOMA_TOOLS_ENGINE_GAPS_H
#define SOMA_TOOLS_ENGINE_GAPS_H

#include <soma/model.h>

#include "tools/engine/rewind.h"
#include "tools/trace/trace.h"

/* Reads the trace once more, from its beginning, as far as it is needed, and gives
 * the blocks of `start` what hides behind them. */
enum trace_result gaps_find(struct start *start, int32_t device, const struct soma_policy *policy,
			    struct trace_reader *reader, struct trace_error *error);

#endif
