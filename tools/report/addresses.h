/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An axis of addresses: what lies between the parts that were ever used is left out, but
 * for a gap that shows where.
 */
#ifndef SOMA_TOOLS_REPORT_ADDRESSES_H
#define SOMA_TOOLS_REPORT_ADDRESSES_H

#include "tools/report/scene.h"

struct address_part {
	uint64_t from, to;
	double at; /* of `from` on the axis, in bytes */
};

struct addresses {
	struct address_part *parts; /* in address order */
	size_t count;
	double length;
};

void addresses_make(struct addresses *addresses, const struct scene *scene);
void addresses_fini(struct addresses *addresses);

/* Where an address is on the axis, from 0 to length. */
double addresses_at(const struct addresses *addresses, uint64_t address);

#endif
