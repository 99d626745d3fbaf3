/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space that is not in use: holes, and the virtual space of a segmented pool.
 *
 * Holes are kept by address, so that the lowest one that is large enough is found in one
 * descent.  A range's holes are blocks of it (their record is named); those of the virtual
 * space are nothing but addresses.  Tree nodes must have been reserved.
 */
#ifndef SOMA_LIB_MODEL_SPACE_H
#define SOMA_LIB_MODEL_SPACE_H

#include "lib/model/state.h"

#define SOMA__ADDRESS_END(model) ((model)->ceiling)

void soma__hole_put(struct soma_model *model, uint64_t address, uint64_t granules, uint32_t block);

/* The hole that begins at `address` goes from `new_address` on instead, or is larger or smaller. */
void soma__hole_change(struct soma_model *model, uint64_t address, uint64_t new_address, uint64_t granules);
void soma__hole_remove_at(struct soma_model *model, uint64_t address);

/* The lowest hole of at least `granules`: its tree node; 0 if there is none. */
uint32_t soma__hole_lowest(const struct soma_model *model, uint64_t granules);

static inline uint64_t
soma__hole_address(const struct soma_model *model, uint32_t hole)
{
	return soma__tree_at(&model->index.trees, hole)->minor;
}

static inline uint64_t
soma__hole_granules(const struct soma_model *model, uint32_t hole)
{
	return ~soma__tree_at(&model->index.trees, hole)->value;
}

/* Takes the front of a hole. */
void soma__hole_take(struct soma_model *model, uint32_t hole, uint64_t granules);

/* The virtual space: the lowest hole, else the end. */
bool soma__space_has(const struct soma_model *model, uint64_t granules);
uint64_t soma__space_take(struct soma_model *model, uint64_t granules);

/* Needs one tree node. */
void soma__space_give(struct soma_model *model, uint64_t address, uint64_t granules);

/* An adopted segment's addresses leave the space; it overlaps no segment.  Needs two tree
 * nodes. */
void soma__space_adopt(struct soma_model *model, uint64_t address, uint64_t end);

#endif
