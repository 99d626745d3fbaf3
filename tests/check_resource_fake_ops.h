/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake backend share; for nobody else.  See check_resource_fake.h. */
#ifndef SOMA_TESTS_CHECK_RESOURCE_FAKE_OPS_H
#define SOMA_TESTS_CHECK_RESOURCE_FAKE_OPS_H

#include "tests/check_resource_fake.h"

/* Every op begins with this: counts the call; what it is to return. */
enum soma_status fake_enter(struct soma_backend *fake, enum fake_op op);
/* And one that a test may want to look at ends with this. */
void fake_leave(struct soma_backend *fake, enum fake_op op);

/* check_resource_fake_streams.c: ops of <soma/backend.h>. */
enum soma_status fake_stream_create(struct soma_backend *fake, unsigned flags,
				    struct soma_backend_stream **stream);
enum soma_status fake_stream_default(struct soma_backend *fake, enum soma_backend_stream_kind kind,
				     struct soma_backend_stream **stream);
enum soma_status fake_stream_wrap(struct soma_backend *fake, uint64_t native,
				  struct soma_backend_stream **stream);
void fake_stream_destroy(struct soma_backend *fake, struct soma_backend_stream *stream);
enum soma_status fake_stream_info(struct soma_backend *fake, struct soma_backend_stream *stream,
				  struct soma_backend_stream_info *info);
enum soma_status fake_stream_synchronize(struct soma_backend *fake, struct soma_backend_stream *stream);
enum soma_status fake_event_create(struct soma_backend *fake, unsigned flags,
				   struct soma_backend_event **event);
void fake_event_destroy(struct soma_backend *fake, struct soma_backend_event *event);
enum soma_status fake_event_record(struct soma_backend *fake, struct soma_backend_event *event,
				   struct soma_backend_stream *stream);
enum soma_status fake_event_wait(struct soma_backend *fake, struct soma_backend_event *event,
				 struct soma_backend_stream *stream);
enum soma_status fake_event_query(struct soma_backend *fake, struct soma_backend_event *event, bool *done);
enum soma_status fake_synchronize(struct soma_backend *fake);
enum soma_status fake_event_synchronize(struct soma_backend *fake, struct soma_backend_event *event);

#endif
