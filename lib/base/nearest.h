/* SPDX-License-Identifier: Apache-2.0 */
/* How far two names are apart, for "did you mean".  No state. */
#ifndef SOMA_LIB_BASE_NEAREST_H
#define SOMA_LIB_BASE_NEAREST_H

#include <stddef.h>

/* The insertions, deletions, replacements and swaps of neighbours that make b of a.
 * Only the first 47 bytes of each are looked at. */
size_t soma__name_distance(const char *a, size_t length, const char *b);

#endif
