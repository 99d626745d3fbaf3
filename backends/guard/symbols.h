/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for return addresses, at report time: function, file and line by libdw where the
 * build has it and debug information is there; else module, offset and exported symbol.
 * Slow; call it under no lock of the guard.  Between open and close other threads wait in open.
 */
#ifndef SOMA_BACKENDS_GUARD_SYMBOLS_H
#define SOMA_BACKENDS_GUARD_SYMBOLS_H

#include <stddef.h>

struct symbols;

struct symbols *symbols_open(void);
void symbols_close(struct symbols *symbols);

/* The first frame that is for the program to see: of those of libsoma that a stack begins with the last one, which is
 * the function that was called.  Where libsoma is no library of its own all are. */
size_t symbols_first(void *const *frames, size_t count);

/* "function (file.c:12)", "function+0x10 (libx.so+0x1234)", "0x7f.." */
void symbols_name(struct symbols *symbols, void *pc, char *text, size_t size);

#endif
