/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of a file on their way to people.  What a file calls a name is any bytes: it
 * may be no UTF-8, and it may command the terminal that it is printed on.
 */
#ifndef SOMA_TOOLS_TRACE_CLEAN_H
#define SOMA_TOOLS_TRACE_CLEAN_H

#include <stddef.h>

/*
 * Makes the text valid UTF-8 without control characters (C0, DEL, C1, line and
 * paragraph separators, overriding of the writing direction): every such character and
 * every byte that is part of no character becomes '?'.  The text gets no longer, and a
 * clean one stays as it is.  Returns it.
 */
char *trace_clean(char *text);

/* The bytes of the character that a clean text begins with; 0 at its end. */
size_t trace_clean_character(const char *text);

#endif
