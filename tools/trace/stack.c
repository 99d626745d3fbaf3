/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack, the memo and the containers of the pickle machine.  No function recurses,
 * and every one takes time in proportion to the values it moves.
 */
#include "tools/trace/stack.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/trace/memory.h"

#define DEPTH_LIMIT ((size_t)1 << 25)

enum pickle_flow
pickle_refuse(struct pickle_vm *vm, const char *format, ...)
{
	char text[400];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	trace_fail_byte(vm->reader, vm->at, "%s", text);
	return PICKLE_FAILED;
}

enum pickle_flow
pickle_no_memory(struct pickle_vm *vm)
{
	trace_no_memory(vm->reader);
	return PICKLE_FAILED;
}

/* ---- the stack -------------------------------------------------------------- */

enum pickle_flow
pickle_push(struct pickle_vm *vm, struct pickle_value value)
{
	if (vm->depth == vm->stack_capacity) {
		if (vm->depth >= DEPTH_LIMIT)
			return pickle_refuse(vm, "more than %zu values at once", DEPTH_LIMIT);
		if (!trace_reserve((void **)&vm->stack, &vm->stack_capacity, vm->depth + 1,
				   sizeof *vm->stack))
			return pickle_no_memory(vm);
	}
	vm->stack[vm->depth++] = value;
	return PICKLE_GO;
}

enum pickle_flow
pickle_push_number(struct pickle_vm *vm, enum pickle_type type, uint64_t number, bool negative)
{
	return pickle_push(
		vm, (struct pickle_value){ .type = (uint8_t)type, .negative = negative, .number = number });
}

enum pickle_flow
pickle_push_object(struct pickle_vm *vm, enum pickle_type type)
{
	struct pickle_object *object = pickle_object_new(&vm->store, type, vm->at);

	if (object == NULL)
		return pickle_no_memory(vm);
	return pickle_push(vm, (struct pickle_value){ .type = (uint8_t)type, .object = object });
}

static enum pickle_flow
append(struct pickle_vm *vm, struct pickle_object *object, size_t first, size_t count)
{
	if (count == 0 || pickle_object_append(&vm->store, object, vm->stack + first, count))
		return PICKLE_GO;
	return pickle_refuse(vm, "out of memory with %" PRIu64 " values held", vm->store.held);
}

/* Where the topmost group begins; `below` values must be under it. */
bool
pickle_pop_mark(struct pickle_vm *vm, size_t below, size_t *first)
{
	size_t bottom;

	if (vm->mark_count == 0) {
		pickle_refuse(vm, "a group without MARK");
		return false;
	}
	*first = vm->mark[--vm->mark_count];
	bottom = vm->mark_count > 0 ? vm->mark[vm->mark_count - 1] : 0;
	if (*first >= bottom + below)
		return true;
	pickle_refuse(vm, "a group with nothing to go into");
	return false;
}

/* `count` values above the last MARK. */
enum pickle_flow
pickle_need(struct pickle_vm *vm, size_t count)
{
	size_t bottom = vm->mark_count > 0 ? vm->mark[vm->mark_count - 1] : 0;

	if (vm->depth - bottom < count)
		return pickle_refuse(vm, "the stack holds %zu values, expected %zu", vm->depth - bottom,
				     count);
	return PICKLE_GO;
}

/* ---- the memo ------------------------------------------------------------------ */

static bool
is_container(const struct pickle_value *value)
{
	return value->type == PICKLE_LIST || value->type == PICKLE_DICT || value->type == PICKLE_TUPLE;
}

/* Writers number memo slots from 0; gaps come from those that leave some out. */
enum pickle_flow
pickle_put(struct pickle_vm *vm, size_t slot)
{
	struct pickle_value value;

	if (pickle_need(vm, 1) != PICKLE_GO)
		return PICKLE_FAILED;
	if (slot >= 2 * vm->memo_used + 4096)
		return pickle_refuse(vm, "memo slot %zu when %zu are in use", slot, vm->memo_used);
	if (!trace_reserve((void **)&vm->memo, &vm->memo_capacity, slot + 1, sizeof *vm->memo))
		return pickle_no_memory(vm);
	if (slot >= vm->memo_count) {
		memset(vm->memo + vm->memo_count, 0, (slot + 1 - vm->memo_count) * sizeof *vm->memo);
		vm->memo_count = slot + 1;
	}
	vm->memo_used++;
	value = vm->stack[vm->depth - 1];
	if (is_container(&value)) {
		value.object->shared |= value.object->memo != PICKLE_NO_MEMO;
		value.object->memo = (uint32_t)slot;
	}
	value.negative = value.type != PICKLE_TAKEN && value.negative;
	vm->memo[slot] = value;
	return PICKLE_GO;
}

enum pickle_flow
pickle_get(struct pickle_vm *vm, size_t slot)
{
	if (slot >= vm->memo_count || vm->memo[slot].type == PICKLE_UNSET)
		return pickle_refuse(vm, "memo slot %zu holds nothing", slot);
	if (is_container(&vm->memo[slot]))
		vm->memo[slot].object->shared = true;
	return pickle_push(vm, vm->memo[slot]);
}

/* ---- containers ---------------------------------------------------------------- */

/* The topmost values from `first` on become one tuple. */
enum pickle_flow
pickle_tuple(struct pickle_vm *vm, size_t first)
{
	struct pickle_object *made = pickle_object_new(&vm->store, PICKLE_TUPLE, vm->at);

	if (made == NULL)
		return pickle_no_memory(vm);
	if (append(vm, made, first, vm->depth - first) != PICKLE_GO)
		return PICKLE_FAILED;
	vm->depth = first;
	return pickle_push(vm, (struct pickle_value){ .type = PICKLE_TUPLE, .object = made });
}

/* The container that takes the values from `first` on, or NULL. */
static struct pickle_object *
owner(struct pickle_vm *vm, size_t first, enum pickle_type type)
{
	struct pickle_value *value = &vm->stack[first - 1];

	if (value->type != type)
		pickle_refuse(vm, "values for a container, but there is no %s",
			      type == PICKLE_DICT ? "dict" : "list");
	else if (value->object->use != 0)
		pickle_refuse(vm, "a %s changes after it was used", type == PICKLE_DICT ? "dict" : "list");
	else
		return value->object;
	return NULL;
}

enum pickle_flow
pickle_set_items(struct pickle_vm *vm, size_t first)
{
	struct pickle_object *dict = owner(vm, first, PICKLE_DICT);

	if (dict == NULL)
		return PICKLE_FAILED;
	if ((vm->depth - first) % 2 != 0)
		return pickle_refuse(vm, "a key without a value");
	if (append(vm, dict, first, vm->depth - first) != PICKLE_GO)
		return PICKLE_FAILED;
	vm->depth = first;
	return vm->user.dict_filled(vm->user.context, vm, first - 1);
}

enum pickle_flow
pickle_append_on(struct pickle_vm *vm)
{
	while (vm->append_next < vm->depth) {
		size_t at = vm->append_next++;
		enum pickle_flow flow = vm->user.item(vm->user.context, vm, vm->append_first - 1, at);
		if (flow != PICKLE_GO)
			return flow;
	}
	vm->depth = vm->append_first;
	vm->appending = false;
	return PICKLE_GO;
}

enum pickle_flow
pickle_append_items(struct pickle_vm *vm, size_t first)
{
	enum pickle_flow flow;
	struct pickle_object *list;

	if (vm->stack[first - 1].type != PICKLE_LIST)
		return pickle_refuse(vm, "values for a container, but there is no list");
	flow = vm->user.list_taken(vm->user.context, vm, first - 1);
	if (flow == PICKLE_PAUSE) {
		vm->append_first = vm->append_next = first;
		vm->appending = true;
		return pickle_append_on(vm);
	}
	list = flow == PICKLE_GO ? owner(vm, first, PICKLE_LIST) : NULL;
	if (list == NULL || append(vm, list, first, vm->depth - first) != PICKLE_GO)
		return PICKLE_FAILED;
	vm->depth = first;
	return PICKLE_GO;
}

void
pickle_take(struct pickle_vm *vm, struct pickle_object *object, uint8_t use, uint32_t number)
{
	pickle_object_clear(&vm->store, object);
	object->use = use;
	object->word[0] = number;
	if (object->shared)
		return;
	if (object->memo != PICKLE_NO_MEMO && is_container(&vm->memo[object->memo]) &&
	    vm->memo[object->memo].object == object)
		vm->memo[object->memo] = (struct pickle_value){ .type = PICKLE_TAKEN, .number = number };
	pickle_object_drop(&vm->store, object);
}
