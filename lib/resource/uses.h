/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What streams do with a block: the accesses that are outstanding, at most one read and one
 * write a stream.
 *
 * An access has a number that grows with every access that ends, and an event; an access without
 * an event stands for all work of its stream up to the moment when somebody has to wait for it (so the
 * allocation, and a use whose event could not be recorded, cost nothing until then).  A write that ends
 * removes the accesses up to the number that its prepare saw, and no others.
 *
 * The list belongs to who has the record in hand (BUSY, CLOSING), which is over no backend call that may
 * wait.
 */
#ifndef SOMA_LIB_RESOURCE_USES_H
#define SOMA_LIB_RESOURCE_USES_H

#include "lib/resource/terminal.h"

struct soma__access {
	uint64_t stream;
	uint64_t number;           /* 0: room only, no access is outstanding */
	struct soma__event *event; /* NULL: the stream's work until it is asked for */
	uint64_t mark;             /* the event's number on the stream; 0: the allocation's */
	bool writes;
};

struct soma__uses {
	uint64_t number; /* of the latest access that ended */
	uint32_t count;
	uint32_t capacity;
	struct soma__uses *next; /* while it is spare */
	struct soma__access list[];
};

/* What a live block is, for telling of its use.  told: see below. */
enum soma_status soma__uses_look(struct soma__terminal *terminal, const struct soma_use *use, bool told,
				 struct soma__used *used);

/* by: told of what is recorded and waited for, here and below. */
enum soma_status soma__uses_prepare(struct soma_resource *by, struct soma_use *use,
				    const struct soma__stream *stream, struct soma__used *used);
/*
 * mark: of the use's stream, behind its work; the caller keeps its reference, but the last use may take that over and
 * leave NULL.  Of uses that end at once the one with the earlier mark may come last: the place keeps the latest.
 * told: the backend has reported this use already, and need not hear that the block is gone.
 */
enum soma_status soma__uses_finish(struct soma_resource *by, const struct soma_use *use,
				   struct soma__mark *mark, bool last, bool told);

/*
 * soma_resource_finish_use() for work that may have been queued without a good prepare, of which the backend and
 * the traces hear now; an objection of the backend is the use's status, though it is recorded.
 * prepared: the uses' statuses are what their prepares came to; else there was none.
 */
enum soma_status soma__uses_commit(struct soma_resource *resource, struct soma_use *uses, size_t count,
				   bool prepared);

/* For a CLOSING record: its stream (NULL: the host) waits for all others' accesses. */
enum soma_status soma__uses_before_free(struct soma__record *record, const struct soma__stream *stream);
void soma__uses_clear(struct soma__terminal *terminal, struct soma__record *record);

/* At the terminal's end: gives the events back. */
void soma__uses_drop_all(struct soma__terminal *terminal);

#endif
