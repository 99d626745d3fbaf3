/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a PyTorch trace as events; see snapshot.h. */
#ifndef SOMA_TOOLS_TRACE_EVENTS_H
#define SOMA_TOOLS_TRACE_EVENTS_H

#include "tools/trace/snapshot.h"

/* Takes one entry in and queues what it completes: nothing, one event or two. */
bool snapshot_entry(struct snapshot_reader *sr, struct pickle_value *value, int32_t device, uint64_t number);

/* Queues what waited for a next entry: there is none. */
void snapshot_flush(struct snapshot_reader *sr);

#endif
