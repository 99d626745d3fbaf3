/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for pickles that hold plain data.  It runs nothing: an opcode that would
 * make an object, or drop a value, is refused by name.
 *
 * Its user is told where containers are filled (see struct pickle_user), so that it can
 * take values out of the stream instead of waiting for one big tree.
 */
#ifndef SOMA_TOOLS_TRACE_PICKLE_H
#define SOMA_TOOLS_TRACE_PICKLE_H

#include "tools/trace/reader.h"
#include "tools/trace/value.h"

enum pickle_flow {
	PICKLE_GO,
	PICKLE_PAUSE,   /* the user has something to give out; pickle_run() goes on later */
	PICKLE_STOPPED, /* the pickle's end */
	PICKLE_CUT,     /* the input ended first */
	PICKLE_FAILED,  /* reader->failure says why */
};

struct pickle_vm;

struct pickle_user {
	/* The dict at stack index `dict` got pairs; the marks that are left are below it. */
	enum pickle_flow (*dict_filled)(void *context, struct pickle_vm *vm, size_t dict);
	/* Whether the items of the list at stack index `list` go to item() one by one
	 * instead of being stored; PICKLE_GO: stored, PICKLE_PAUSE: to item(). */
	enum pickle_flow (*list_taken)(void *context, struct pickle_vm *vm, size_t list);
	enum pickle_flow (*item)(void *context, struct pickle_vm *vm, size_t list, size_t item);
	void *context;
};

struct pickle_vm {
	struct trace_reader *reader;
	struct pickle_user user;
	struct pickle_value *stack;
	size_t depth, stack_capacity;
	size_t *mark; /* stack depths */
	size_t mark_count, mark_capacity;
	struct pickle_value *memo;
	size_t memo_count, memo_capacity, memo_used;
	struct pickle_store store;
	uint64_t at; /* offset of the present opcode */
	/* Items on their way to user.item() */
	bool appending;
	size_t append_next, append_first;
};

/* Runs until there is something to say. */
enum pickle_flow pickle_run(struct pickle_vm *vm);

/* Back to the state before the first opcode; memory that depends on the input is freed. */
void pickle_reset(struct pickle_vm *vm);
void pickle_fini(struct pickle_vm *vm);

/* Refuses at the present opcode. */
enum pickle_flow pickle_refuse(struct pickle_vm *vm, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The user has understood `object` and will keep `number` of it (a PICKLE_TAKEN value):
 * the object goes when nothing else refers to it, and otherwise keeps `use`. */
void pickle_take(struct pickle_vm *vm, struct pickle_object *object, uint8_t use, uint32_t number);

#endif
