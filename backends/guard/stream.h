/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of streams and events (stream.c), as <soma/backend.h> has them. */
#ifndef SOMA_BACKENDS_GUARD_STREAM_H
#define SOMA_BACKENDS_GUARD_STREAM_H

#include <soma/backend.h>

enum soma_status stream_create(struct soma_backend *g, unsigned flags, struct soma_backend_stream **stream);
enum soma_status stream_default(struct soma_backend *g, enum soma_backend_stream_kind kind,
				struct soma_backend_stream **stream);
enum soma_status stream_wrap(struct soma_backend *g, uint64_t native, struct soma_backend_stream **stream);
void stream_destroy(struct soma_backend *g, struct soma_backend_stream *stream);
void stream_name(struct soma_backend *g, struct soma_backend_stream *stream, uint64_t name);
enum soma_status stream_info(struct soma_backend *g, struct soma_backend_stream *stream,
			     struct soma_backend_stream_info *info);
enum soma_status stream_query(struct soma_backend *g, struct soma_backend_stream *stream, bool *done);
enum soma_status stream_synchronize(struct soma_backend *g, struct soma_backend_stream *stream);
enum soma_status guard_synchronize(struct soma_backend *g);
enum soma_status event_create(struct soma_backend *g, unsigned flags, struct soma_backend_event **event);
void event_destroy(struct soma_backend *g, struct soma_backend_event *event);
enum soma_status event_record(struct soma_backend *g, struct soma_backend_event *event,
			      struct soma_backend_stream *stream);
enum soma_status event_wait(struct soma_backend *g, struct soma_backend_event *event,
			    struct soma_backend_stream *stream);
enum soma_status event_query(struct soma_backend *g, struct soma_backend_event *event, bool *done);
enum soma_status event_synchronize(struct soma_backend *g, struct soma_backend_event *event);

#endif
