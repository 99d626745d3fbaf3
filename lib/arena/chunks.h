/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a set's chunks, for pages.c alone; under the set's mutex. */
#ifndef SOMA_LIB_ARENA_CHUNKS_H
#define SOMA_LIB_ARENA_CHUNKS_H

#include "lib/arena/pages.h"

/* The chunk that the address is in, which there must be. */
struct soma__chunk *soma__chunk_of(const struct soma__pages *pages, const void *address);

/* Room for so many more.  False without memory. */
bool soma__chunks_reserve(struct soma__pages *pages, size_t more);

/* Those of [address, address + size), for which there is room, all like this one; but only the first
 * has its `range`. */
void soma__chunks_add(struct soma__pages *pages, char *address, size_t size, struct soma__chunk like);

/* Pointers to others are good no longer. */
void soma__chunks_remove(struct soma__pages *pages, struct soma__chunk *chunk);

/* The table itself, at the end. */
void soma__chunks_free(struct soma__pages *pages);

#endif
