/* SPDX-License-Identifier: Apache-2.0 */
/* Fills, copies and scans as the library calls them: queued on a lane, or done at once where
 * there is none.  Staging memory is any memory here. */
#include "backends/host/host.h"

#include <inttypes.h>

#include "backends/host/error.h"

static enum soma_status
queue(struct soma_backend *self, struct soma_backend_stream *stream, struct op what)
{
	if (what.bytes == 0)
		return SOMA_STATUS_OK;
	if (stream == NULL) {
		work_run(&what);
		return SOMA_STATUS_OK;
	}
	struct op *op = lane_op(&self->lanes, stream);
	if (op == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*op = what;
	lane_put(&self->lanes, stream, &op->item);
	return SOMA_STATUS_OK;
}

enum soma_status
host_fill8(struct soma_backend *self, uint64_t ptr, uint8_t value, uint64_t count,
	   struct soma_backend_stream *stream)
{
	return queue(self, stream,
		     (struct op){ .item.kind = ITEM_FILL8, .to = ptr, .from = value, .bytes = count });
}

enum soma_status
host_fill32(struct soma_backend *self, uint64_t ptr, uint32_t value, uint64_t count,
	    struct soma_backend_stream *stream)
{
	if ((ptr & 3) != 0)
		return host_fail(self->host, SOMA_STATUS_INVALID_VALUE,
				 "fill32 at 0x%" PRIx64 ": the address must be a multiple of 4", ptr);
	return queue(self, stream,
		     (struct op){ .item.kind = ITEM_FILL32, .to = ptr, .from = value, .bytes = count });
}

enum soma_status
host_copy(struct soma_backend *self, uint64_t to, uint64_t from, uint64_t bytes,
	  struct soma_backend_stream *stream)
{
	return queue(self, stream,
		     (struct op){ .item.kind = ITEM_COPY, .to = to, .from = from, .bytes = bytes });
}

enum soma_status
host_copy_from_host(struct soma_backend *self, uint64_t to, const void *from, uint64_t bytes,
		    struct soma_backend_stream *stream)
{
	return host_copy(self, to, (uintptr_t)from, bytes, stream);
}

enum soma_status
host_copy_to_host(struct soma_backend *self, void *to, uint64_t from, uint64_t bytes,
		  struct soma_backend_stream *stream)
{
	return host_copy(self, (uintptr_t)to, from, bytes, stream);
}

enum soma_status
host_scan(struct soma_backend *self, struct soma_backend_scan *ranges, size_t count,
	  struct soma_backend_stream *stream)
{
	return queue(self, stream,
		     (struct op){ .item.kind = ITEM_SCAN, .to = (uintptr_t)ranges, .bytes = count });
}

enum soma_status
host_staging_alloc(struct soma_backend *self, size_t size, void **memory)
{
	void *p = self->host->alloc(self->host->context, size, 64);

	if (p == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*memory = p;
	return SOMA_STATUS_OK;
}

void
host_staging_free(struct soma_backend *self, void *memory, size_t size)
{
	self->host->free(self->host->context, memory, size);
}
