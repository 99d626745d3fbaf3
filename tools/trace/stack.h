/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the opcodes of the pickle machine are made of.  PICKLE_FAILED and false mean that
 * reader->failure says why.
 */
#ifndef SOMA_TOOLS_TRACE_STACK_H
#define SOMA_TOOLS_TRACE_STACK_H

#include "tools/trace/pickle.h"

enum pickle_flow pickle_no_memory(struct pickle_vm *vm);

enum pickle_flow pickle_push(struct pickle_vm *vm, struct pickle_value value);
enum pickle_flow pickle_push_number(struct pickle_vm *vm, enum pickle_type type, uint64_t number,
				    bool negative);
enum pickle_flow pickle_push_object(struct pickle_vm *vm, enum pickle_type type);

/* There must be `count` values above the last MARK. */
enum pickle_flow pickle_need(struct pickle_vm *vm, size_t count);

/* Where the topmost group begins; `below` values must be under it. */
bool pickle_pop_mark(struct pickle_vm *vm, size_t below, size_t *first);

enum pickle_flow pickle_put(struct pickle_vm *vm, size_t slot);
enum pickle_flow pickle_get(struct pickle_vm *vm, size_t slot);

/* The values from stack index `first` on become a tuple, or go into the dict or list
 * below them. */
enum pickle_flow pickle_tuple(struct pickle_vm *vm, size_t first);
enum pickle_flow pickle_set_items(struct pickle_vm *vm, size_t first);
enum pickle_flow pickle_append_items(struct pickle_vm *vm, size_t first);

/* Goes on with items that go to the user one by one. */
enum pickle_flow pickle_append_on(struct pickle_vm *vm);

#endif
