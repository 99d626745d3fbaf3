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

void soma__hole_put(struct soma_model *model, uint32_t tree, uint64_t address, uint64_t granules,
		    uint32_t block);
bool soma__hole_exists(const struct soma_model *model, uint64_t granules);

/* Takes the front of the lowest hole of at least `granules`; false if there is none.
 * *rest is 0 where the hole is used up, else what is left of it; *block is the hole's. */
bool soma__hole_take(struct soma_model *model, uint64_t granules, uint64_t *address, uint64_t *rest,
		     uint32_t *block);

/* The virtual space: the lowest hole, else the end. */
bool soma__space_has(const struct soma_model *model, uint64_t granules);
uint64_t soma__space_take(struct soma_model *model, uint64_t granules);

/* Needs one tree node. */
void soma__space_give(struct soma_model *model, uint64_t address, uint64_t granules);

/* An adopted segment's addresses leave the space; it overlaps no segment.  Needs two tree
 * nodes. */
void soma__space_adopt(struct soma_model *model, uint64_t address, uint64_t end);

#endif
