/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's stream and event handles as a model's streams and positions.
 *
 * Every handle becomes a stream of its own, ordered by events alone; only a trace
 * that says which of its streams are blocking has a legacy default stream (handle 0).
 * Private pools of a snapshot share a stream's handle but not its memory: each is a
 * group, and a stream of its own.
 */
#ifndef SOMA_TOOLS_ENGINE_STREAMS_H
#define SOMA_TOOLS_ENGINE_STREAMS_H

#include <soma/model.h>

#include "tools/engine/table.h"
#include "tools/trace/trace.h"

struct streams {
	struct soma_model *model;
	struct expandable *expandable; /* whose memory stands in for the model's, or NULL */
	bool has_legacy;
	struct table *groups; /* [0]: memory outside of private pools */
	size_t group_count, group_room;
	uint64_t (*pools)[2]; /* whose memory a group is */
	size_t pool_room;
	struct table handles; /* by the model's stream, as long as the trace's exists */
	struct table events;
	uint64_t seen; /* distinct handles */

	/* The segments of private pools, in address order. */
	struct stream_range {
		uint64_t address, size;
		size_t group;
	} * ranges;
	size_t range_count;
};

/* Live requested bytes, what their blocks hold, and reserved bytes, of whatever memory it is. */
uint64_t streams_used(const struct streams *streams);
uint64_t streams_capacity(const struct streams *streams);
uint64_t streams_reserved(const struct streams *streams);

/* snapshot may be NULL. */
void streams_init(struct streams *streams, struct soma_model *model, bool has_legacy, int32_t device,
		  const struct trace_snapshot *snapshot);
void streams_fini(struct streams *streams);

/* The group that an address belongs to, by the snapshot's segments. */
size_t streams_group(const struct streams *streams, uint64_t address);

/* The group of a private pool; of the default pool for {0, 0}. */
size_t streams_group_of_pool(struct streams *streams, const uint64_t pool[2]);

/* An event's, which may say it itself: so the pools are known whose segments the
 * snapshot does not have any more. */
size_t streams_group_of_event(struct streams *streams, const struct trace_event *event);

/* The model's stream, made at its first use. */
enum soma_status streams_get(struct streams *streams, uint64_t handle, size_t group, uint64_t *stream);

/* The trace's handle of a stream of the model, and whose memory it has ({0, 0}: nobody's in
 * particular).  0 for a stream whose handle is gone. */
uint64_t streams_handle(const struct streams *streams, uint64_t stream, uint64_t pool[2]);

/* Whether two streams of the model are one of the trace's, in different groups. */
bool streams_are_one(const struct streams *streams, uint64_t stream, uint64_t other);

enum soma_status streams_create(struct streams *streams, uint64_t handle, bool blocking);
enum soma_status streams_destroy(struct streams *streams, uint64_t handle);

/* The host waits for the stream, in all its groups. */
enum soma_status streams_synchronize(struct streams *streams, uint64_t handle);

enum soma_status streams_record(struct streams *streams, uint64_t handle, uint64_t event);

/* SOMA_STATUS_NOT_FOUND: the event was never recorded. */
enum soma_status streams_wait(struct streams *streams, uint64_t handle, uint64_t event);

#endif
