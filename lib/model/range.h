/* SPDX-License-Identifier: Apache-2.0 */
/* SOMA_SEGMENTS_RANGE: called by segments.c alone, but for creating. */
#ifndef SOMA_LIB_MODEL_RANGE_H
#define SOMA_LIB_MODEL_RANGE_H

#include "lib/model/segments.h"
#include "lib/model/state.h"

/* Makes the range's segment; part of creating a model. */
bool soma__range_create(struct soma_model *model);

enum soma__growth soma__range_grow(struct soma_model *model, struct soma__stream *stream, uint64_t granules,
				   uint32_t *block);

/* Releases down to `keep` bytes; true if anything went. */
bool soma__range_release(struct soma_model *model, uint64_t keep);

#endif
