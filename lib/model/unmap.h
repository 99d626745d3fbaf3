/* SPDX-License-Identifier: Apache-2.0 */
/* Taking memory away from free blocks of mapped ranges: HACKING, "Unmapping". */
#ifndef SOMA_LIB_MODEL_UNMAP_H
#define SOMA_LIB_MODEL_UNMAP_H

#include "lib/model/state.h"

/* Unmaps so many pages of complete free blocks, which have them; `steal`: they are needed
 * elsewhere.  Records must have been reserved. */
void soma__unmap_pages(struct soma_model *model, uint64_t pages, bool steal);

#endif
