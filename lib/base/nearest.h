/* SPDX-License-Identifier: Apache-2.0 */
/* How far two names are apart, for "did you mean".  No state. */
#ifndef SOMA_LIB_BASE_NEAREST_H
#define SOMA_LIB_BASE_NEAREST_H

#include <stddef.h>

/* The insertions, deletions, replacements and swaps of neighbours that make b of a.
 * Only the first 47 bytes of each are looked at. */
size_t soma__name_distance(const char *a, size_t length, const char *b);

/* name_at gives a list's names by index, NULL behind the last. */
typedef const char *soma__name_list(const void *names, size_t index);

/* From so many edits on a name is no misspelling of a text of that length. */
size_t soma__name_limit(size_t length);

/* The name with the least distance from text, the first of several; NULL when none is nearer
 * than that limit.  A name that begins with text, of two bytes or more, is at 1. */
const char *soma__name_near(const char *text, size_t length, soma__name_list *name_at, const void *names);

#endif
