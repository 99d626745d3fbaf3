/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backends that are found, for `soma info`: what each can do here, or why it cannot be used.
 */
#ifndef SOMA_TOOLS_BACKENDS_H
#define SOMA_TOOLS_BACKENDS_H

#include <jansson.h>

/* search: folders to look in first, with colons between; may be NULL.  Each looks, and opens what it finds
 * to ask it. */
void backends_print(const char *search);
json_t *backends_array(const char *search);

#endif
