/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of a pickle, and the store that owns its containers.
 *
 * A container is not counted: the store frees every one when it is reset.  One bit
 * says whether anything besides its place and its memo slot refers to it; a container
 * without it can be dropped as soon as it is understood.
 */
#ifndef SOMA_TOOLS_TRACE_VALUE_H
#define SOMA_TOOLS_TRACE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_type {
	PICKLE_UNSET, /* an empty memo slot */
	PICKLE_NONE,
	PICKLE_BOOL, /* number */
	PICKLE_INT,  /* number, two's complement; `negative` tells */
	PICKLE_HUGE, /* an integer of more than 64 bits, value lost */
	PICKLE_FLOAT,
	PICKLE_TEXT, /* name */
	PICKLE_LIST, /* object */
	PICKLE_DICT,
	PICKLE_TUPLE,
	PICKLE_TAKEN, /* a container that was understood and dropped; number: see its user */
};

struct pickle_value {
	uint8_t type;
	bool negative;
	union {
		uint64_t number;
		double real;
		uint32_t name;
		struct pickle_object *object;
	};
};

#define PICKLE_NO_MEMO UINT32_MAX

struct pickle_object {
	uint8_t type;
	uint8_t use; /* 0: plain; else what its user made of it: it may not change any more */
	bool shared;
	bool busy;     /* being read by its user, so not to be read again */
	uint32_t memo; /* its slot, or PICKLE_NO_MEMO */
	union {
		struct {
			struct pickle_value *item; /* of a dict: key, value, key, value */
			uint32_t count, capacity;
		};
		struct { /* after `use` was set */
			uint32_t word[4];
		};
		struct pickle_object *next_free;
	};
	uint64_t offset; /* where in the file it began */
};

struct pickle_store {
	struct pickle_chunk *chunk;
	struct pickle_object *free;
	uint64_t held; /* values in containers */
};

/* NULL: no memory. */
struct pickle_object *pickle_object_new(struct pickle_store *store, enum pickle_type type, uint64_t offset);

/* Appends; false: no memory or too many. */
bool pickle_object_append(struct pickle_store *store, struct pickle_object *object,
			  const struct pickle_value *value, size_t count);

/* Drops what it holds. */
void pickle_object_clear(struct pickle_store *store, struct pickle_object *object);

/* Drops the object itself: nothing may refer to it. */
void pickle_object_drop(struct pickle_store *store, struct pickle_object *object);

void pickle_store_reset(struct pickle_store *store);

#endif
