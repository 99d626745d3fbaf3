/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The virtual space of a segmented pool: what of it is not in use is gaps without records.
 */
#ifndef SOMA_LIB_MODEL_SPACE_H
#define SOMA_LIB_MODEL_SPACE_H

#include "lib/model/state.h"

#define SOMA__ADDRESS_END(model) ((model)->ceiling)

/* The lowest hole, else the end. */
bool soma__space_has(const struct soma_model *model, uint64_t granules);
uint64_t soma__space_take(struct soma_model *model, uint64_t granules);

/* Inserts one gap at most. */
void soma__space_give(struct soma_model *model, uint64_t address, uint64_t granules);

/* An adopted segment's addresses leave the space; it overlaps no segment.  Inserts two gaps at
 * most. */
void soma__space_adopt(struct soma_model *model, uint64_t address, uint64_t end);

#endif
