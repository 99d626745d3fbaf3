/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backends that are found, for `soma info`: what each can do here, or why it cannot be used; and
 * their names, for whoever names none of them.
 */
#ifndef SOMA_TOOLS_BACKENDS_H
#define SOMA_TOOLS_BACKENDS_H

#include <jansson.h>

/* search: folders to look in first, with colons between; may be NULL.  Each looks, and opens what it finds
 * to ask it. */
void backends_print(const char *search);
json_t *backends_array(const char *search);

/* To standard error: which names there are instead of that of a backend that was not found.  Opens nothing. */
void backends_suggest(const char *search, const char *backend);

#endif
