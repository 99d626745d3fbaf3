/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend: memory of this machine, in the order of streams that run only
 * when somebody waits for them, or steps them.
 *
 * Blocks come from mappings of the backend's own (heap.h) and not from the library's arena:
 * the program writes to them, wrongly at times, so they must not lie beside records; and an
 * arena gives pages back with every free, while a device's pool keeps them until a
 * synchronisation. Records come from the arena.
 */
#ifndef SOMA_BACKENDS_HOST_HOST_H
#define SOMA_BACKENDS_HOST_HOST_H

#include <soma/backend.h>

#include "backends/host/heap.h"
#include "backends/host/lanes.h"
#include "backends/host/spans.h"

struct soma_backend {
	const struct soma_backend_host *host;
	struct heap heap;
	struct lanes lanes;
	struct spans spans;
};

/* streams.c */
enum soma_status host_stream_create(struct soma_backend *self, unsigned flags,
				    struct soma_backend_stream **stream);
enum soma_status host_stream_default(struct soma_backend *self, enum soma_backend_stream_kind kind,
				     struct soma_backend_stream **stream);
enum soma_status host_stream_wrap(struct soma_backend *self, uint64_t native,
				  struct soma_backend_stream **stream);
void host_stream_destroy(struct soma_backend *self, struct soma_backend_stream *stream);
enum soma_status host_stream_info(struct soma_backend *self, struct soma_backend_stream *stream,
				  struct soma_backend_stream_info *info);
enum soma_status host_stream_query(struct soma_backend *self, struct soma_backend_stream *stream, bool *done);
enum soma_status host_stream_synchronize(struct soma_backend *self, struct soma_backend_stream *stream);
enum soma_status host_synchronize(struct soma_backend *self);
enum soma_status host_stream_step(struct soma_backend *self, struct soma_backend_stream *stream,
				  uint64_t count, uint64_t *ran);
enum soma_status host_stream_position(struct soma_backend *self, struct soma_backend_stream *stream,
				      uint64_t *queued, uint64_t *run);
enum soma_status host_event_create(struct soma_backend *self, unsigned flags,
				   struct soma_backend_event **event);
void host_event_destroy(struct soma_backend *self, struct soma_backend_event *event);
enum soma_status host_event_record(struct soma_backend *self, struct soma_backend_event *event,
				   struct soma_backend_stream *stream);
enum soma_status host_event_wait(struct soma_backend *self, struct soma_backend_event *event,
				 struct soma_backend_stream *stream);
enum soma_status host_event_query(struct soma_backend *self, struct soma_backend_event *event, bool *done);
enum soma_status host_event_synchronize(struct soma_backend *self, struct soma_backend_event *event);

/* fills.c */
enum soma_status host_fill8(struct soma_backend *self, uint64_t ptr, uint8_t value, uint64_t count,
			    struct soma_backend_stream *stream);
enum soma_status host_fill32(struct soma_backend *self, uint64_t ptr, uint32_t value, uint64_t count,
			     struct soma_backend_stream *stream);
enum soma_status host_copy(struct soma_backend *self, uint64_t to, uint64_t from, uint64_t bytes,
			   struct soma_backend_stream *stream);
enum soma_status host_copy_from_host(struct soma_backend *self, uint64_t to, const void *from, uint64_t bytes,
				     struct soma_backend_stream *stream);
enum soma_status host_copy_to_host(struct soma_backend *self, void *to, uint64_t from, uint64_t bytes,
				   struct soma_backend_stream *stream);
enum soma_status host_scan(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count,
			   struct soma_backend_stream *stream);
enum soma_status host_staging_alloc(struct soma_backend *self, size_t size, void **memory);
void host_staging_free(struct soma_backend *self, void *memory, size_t size);

#endif
