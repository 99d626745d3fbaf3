/* SPDX-License-Identifier: Apache-2.0 */
/* Records of parts.  Between leave and end (or stay) the record is CLOSING, and its owner's alone. */
#include "lib/resource/parts.h"

#include "lib/base/error.h"
#include "lib/resource/terminal.h"
#include "lib/resource/uses.h"

enum soma_status
soma__part_begin(struct soma_resource *resource, uint64_t ptr, uint64_t bytes, uint64_t stream,
		 struct soma_block_id *id)
{
	struct soma__ledger *ledger = &resource->terminal->ledger;
	unsigned index = soma__thread_index();
	struct soma__ledger_slot *slot = soma__ledger_slot(ledger, index);
	struct soma__record *record = soma__record_take(ledger, slot);

	if (record == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	atomic_store_explicit(&record->ptr, ptr, memory_order_relaxed);
	record->bytes = bytes;
	record->stream = stream;
	record->tenant = NULL;
	record->domain = NULL;
	record->tag = SOMA_TAG_NONE;
	record->part = true;
	atomic_store_explicit(&record->via, resource, memory_order_relaxed);
	id->handle = soma__record_handle(ledger, record);
	id->generation = soma__record_begin(ledger, slot, index, record);
	return SOMA_STATUS_OK;
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Accesses of the record's stream are not waited for, so that is the one of the free. */
static enum soma_status
order_end(struct soma__terminal *terminal, struct soma__record *record, uint64_t id)
{
	uint64_t before = record->stream;
	struct soma__stream *stream;
	enum soma_status status = soma__stream_open(&terminal->streams, id, &stream);

	if (status != SOMA_STATUS_OK)
		return status;
	if (!soma__stream_pin(&terminal->streams, stream, id))
		return soma__stream_missing(id);
	record->stream = id;
	status = soma__uses_before_free(record, stream);
	soma__stream_unpin(&terminal->streams, stream, id);
	if (status != SOMA_STATUS_OK)
		record->stream = before;
	return status;
}

enum soma_status
soma__part_leave(struct soma_resource *resource, struct soma_block_id id, const uint64_t *stream)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__record *record;
	enum soma_status status = soma__record_claim(&terminal->ledger, id, SOMA__RECORD_CLOSING, &record);

	if (status != SOMA_STATUS_OK || stream == NULL || record->uses == NULL)
		return status;
	status = order_end(terminal, record, *stream);
	if (status != SOMA_STATUS_OK)
		soma__record_set(record, SOMA__RECORD_LIVE);
	return status;
}

void
soma__part_end(struct soma_resource *resource, struct soma_block_id id)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__ledger *ledger = &terminal->ledger;
	struct soma__record *record = soma__record_of(ledger, id.handle);

	soma__uses_clear(terminal, record);
	record->part = false;
	soma__record_set(record, SOMA__RECORD_FREE);
	atomic_store_explicit(&record->via, NULL, memory_order_release);
	soma__record_put(ledger, soma__ledger_slot(ledger, soma__thread_index()), record);
}

void
soma__part_stay(struct soma_resource *resource, struct soma_block_id id)
{
	soma__record_set(soma__record_of(&resource->terminal->ledger, id.handle), SOMA__RECORD_LIVE);
}
