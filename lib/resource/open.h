/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal on a backend that is opened for it, and closed with it.
 */
#ifndef SOMA_LIB_RESOURCE_OPEN_H
#define SOMA_LIB_RESOURCE_OPEN_H

#include <soma/resource.h>

#include "lib/plugin/backend.h"

/* config->released and context are not looked at: the terminal listens. */
enum soma_status soma__resource_open(const struct soma__backend_config *config,
				     struct soma_resource **resource);

/* The backend of a resource's stack that was opened so; valid as long as the stack. */
struct soma__backend *soma__resource_backend(struct soma_resource *resource);

/* The backend's own stream of this id, for its ops; valid until the stream is destroyed.  NULL: there is
 * no such stream, or the backend has none. */
struct soma_backend_stream *soma__resource_stream(struct soma_resource *resource, uint64_t stream);

/* Memory that stays until the backend of such a stack is closed, for what its close may look at: a callback's
 * context.  NULL without memory, and then the error is recorded. */
void *soma__resource_keep(struct soma_resource *resource, size_t size);

#endif
