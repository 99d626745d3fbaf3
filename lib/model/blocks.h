/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks in address order: joining neighbours, splitting, and the way of a freed block
 * from pending to complete.  HACKING, "Filing", "Completion" and "Alloc", are the rules.
 *
 * Nothing here fails: callers reserve records with soma__blocks_reserve() first.
 */
#ifndef SOMA_LIB_MODEL_BLOCKS_H
#define SOMA_LIB_MODEL_BLOCKS_H

#include "lib/model/state.h"

/* An operation makes at most this many records of a kind, and as many trees again for
 * a free that it leaves on its way to a shelf. */
#define SOMA__RECORDS_PER_OPERATION 8

bool soma__blocks_refill(struct soma_model *model);

/* Records for one operation.  They are counted by operations, and the slabs looked at
 * only when those run out.  False without memory. */
static inline bool
soma__blocks_reserve(struct soma_model *model)
{
	if (model->headroom == 0)
		return soma__blocks_refill(model);
	model->headroom--;
	return true;
}

/* Makes the shelf if need be, with room for blocks of up to `granules`. */
bool soma__shelf_make(struct soma_model *model, uint32_t shelf, uint64_t granules);

/* A live or new block becomes a complete free one. */
void soma__block_complete(struct soma_model *model, uint32_t block);

/* A free block loses its node and its place on shelf, list and trees; it is left as a
 * live one of no account. */
void soma__block_unshelve(struct soma_model *model, uint32_t block);

/* Takes `granules` from the front of a free block; what is left stays free if the
 * policy splits it, else all is taken.  Returns the block, live. */
uint32_t soma__block_take(struct soma_model *model, uint32_t node, uint64_t granules);

/* Completes the stream's pending frees that are known to have executed. */
void soma__stream_complete(struct soma_model *model, struct soma__stream *stream);

#endif
