/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of freed blocks that wait to be filed in batches (HACKING, "Batches").
 *
 * Past some number of blocks every record that a free touches is a cache miss.  A
 * queued free touches none: it asks for them, and when its batch is due they are here.
 * Even the accounts are settled later; readers subtract what is not settled yet.
 */
#ifndef SOMA_LIB_MODEL_QUEUE_H
#define SOMA_LIB_MODEL_QUEUE_H

#include "lib/model/state.h"

static inline uint32_t
soma__queue_length(const struct soma_model *model)
{
	return model->queue_tail - model->queue_head;
}

/* The nodes and trees that filing needs must have been reserved. */
void soma__queue_push(struct soma_model *model, const struct soma__stream *stream, uint32_t block,
		      uint64_t position);

/* Files the `count` oldest. */
void soma__queue_file(struct soma_model *model, uint32_t count);

static inline void
soma__queue_file_all(struct soma_model *model)
{
	soma__queue_file(model, soma__queue_length(model));
}

/* Brings stats.used and stats.capacity up to date. */
void soma__queue_settle(struct soma_model *model);

/* What settling would subtract. */
void soma__queue_unsettled(const struct soma_model *model, uint64_t *used, uint64_t *capacity);

#endif
