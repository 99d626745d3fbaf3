/* SPDX-License-Identifier: Apache-2.0 */
/* The table that a backend gets at open, and who is behind it.  One for each open backend. */
#ifndef SOMA_LIB_PLUGIN_TABLE_H
#define SOMA_LIB_PLUGIN_TABLE_H

#include <soma/backend.h>

#include "lib/arena/arena.h"

struct soma__backend_table {
	struct soma_backend_host host;
	struct soma_backend_inner inner;
	const char *name; /* goes before its errors and messages */
	struct soma__arena *arena;
	void (*released)(void *context, uint64_t ptr, uint64_t size);
	void *context;
};

/* Fills in everything from name, arena, released and context; inner: NULL or what it is around. */
void soma__backend_table_init(struct soma__backend_table *table, const struct soma_backend_inner *inner);

#endif
