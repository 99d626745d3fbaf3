/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fitting all items under a limit by ejection: an item without a place takes one from
 * others, which then look for theirs.
 */
#ifndef SOMA_TOOLS_PACK_EJECT_H
#define SOMA_TOOLS_PACK_EJECT_H

#include "tools/pack/pack.h"

struct eject;

/* The offset of an item that is not placed. */
#define EJECT_NOWHERE UINT64_MAX

/* Different ways to weigh items; none is the best for everything. */
#define EJECT_WAYS 6

/* NULL when there are too many pairs of items that live at the same time. */
struct eject *eject_create(const struct pack_item *items, size_t count);
void eject_destroy(struct eject *eject);

/*
 * `offsets` (by index) is a packing of any height, in which items may be missing.  True: it is
 * now one no higher than `limit`.  False, and as it was: none was found before *steps
 * passed steps_max.
 */
bool eject_run(struct eject *eject, unsigned way, uint64_t limit, uint64_t *offsets, uint64_t *steps,
	       uint64_t steps_max);

#endif
