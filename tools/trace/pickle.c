/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine: a stack, marks, a memo, and one function an opcode.  No function
 * recurses, and every one takes time in proportion to the bytes it consumes.
 */
#include "tools/trace/pickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/trace/memory.h"

#define DEPTH_LIMIT ((size_t)1 << 25)
#define MARK_LIMIT 4096 /* nesting; a snapshot has a dozen */
#define TEXT_LIMIT ((uint32_t)16 << 20)

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

static enum pickle_flow
no_memory(struct pickle_vm *vm)
{
	trace_no_memory(vm->reader);
	return PICKLE_FAILED;
}

/* ---- the stack -------------------------------------------------------------- */

static enum pickle_flow
push(struct pickle_vm *vm, struct pickle_value value)
{
	if (vm->depth == vm->stack_capacity) {
		if (vm->depth >= DEPTH_LIMIT)
			return pickle_refuse(vm, "more than %zu values at once", DEPTH_LIMIT);
		if (!trace_reserve((void **)&vm->stack, &vm->stack_capacity, vm->depth + 1, sizeof *vm->stack))
			return no_memory(vm);
	}
	vm->stack[vm->depth++] = value;
	return PICKLE_GO;
}

static enum pickle_flow
push_number(struct pickle_vm *vm, enum pickle_type type, uint64_t number, bool negative)
{
	return push(vm, (struct pickle_value){ .type = (uint8_t)type, .negative = negative, .number = number });
}

static enum pickle_flow
push_object(struct pickle_vm *vm, enum pickle_type type, struct pickle_object **made)
{
	struct pickle_object *object = pickle_object_new(&vm->store, type, vm->at);

	if (object == NULL)
		return no_memory(vm);
	if (made != NULL)
		*made = object;
	return push(vm, (struct pickle_value){ .type = (uint8_t)type, .object = object });
}

static enum pickle_flow
append(struct pickle_vm *vm, struct pickle_object *object, size_t first, size_t count)
{
	if (count == 0 || pickle_object_append(&vm->store, object, vm->stack + first, count))
		return PICKLE_GO;
	return pickle_refuse(vm, "out of memory with %" PRIu64 " values held", vm->store.held);
}

/* Where the topmost group begins; `below` values must be under it. */
static bool
pop_mark(struct pickle_vm *vm, size_t below, size_t *first)
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
static enum pickle_flow
need(struct pickle_vm *vm, size_t count)
{
	size_t bottom = vm->mark_count > 0 ? vm->mark[vm->mark_count - 1] : 0;

	if (vm->depth - bottom < count)
		return pickle_refuse(vm, "the stack holds %zu values, expected %zu", vm->depth - bottom, count);
	return PICKLE_GO;
}

static uint64_t
little(const uint8_t *bytes, size_t count)
{
	uint64_t value = 0;

	while (count-- > 0)
		value = value << 8 | bytes[count];
	return value;
}

/* ---- opcodes ------------------------------------------------------------------ */

static enum pickle_flow
op_proto(struct pickle_vm *vm, const uint8_t *arg)
{
	if (*arg < 2 || *arg > 5)
		return pickle_refuse(vm, "pickle protocol %u, expected 2 to 5", *arg);
	return PICKLE_GO;
}

static enum pickle_flow
op_frame(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)vm;
	(void)arg;
	return PICKLE_GO;
}

static enum pickle_flow
op_stop(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	if (vm->depth != 1 || vm->mark_count != 0)
		return pickle_refuse(vm, "STOP with %zu values on the stack, expected 1", vm->depth);
	return PICKLE_STOPPED;
}

static enum pickle_flow
op_mark(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	if (vm->mark_count >= MARK_LIMIT)
		return pickle_refuse(vm, "nested more than %d deep", MARK_LIMIT);
	if (!trace_reserve((void **)&vm->mark, &vm->mark_capacity, vm->mark_count + 1, sizeof *vm->mark))
		return no_memory(vm);
	vm->mark[vm->mark_count++] = vm->depth;
	return PICKLE_GO;
}

static bool
is_container(const struct pickle_value *value)
{
	return value->type == PICKLE_LIST || value->type == PICKLE_DICT || value->type == PICKLE_TUPLE;
}

/* Writers number memo slots from 0; gaps come from those that leave some out. */
static enum pickle_flow
put(struct pickle_vm *vm, size_t slot)
{
	struct pickle_value value;

	if (need(vm, 1) != PICKLE_GO)
		return PICKLE_FAILED;
	if (slot >= 2 * vm->memo_used + 4096)
		return pickle_refuse(vm, "memo slot %zu when %zu are in use", slot, vm->memo_used);
	if (!trace_reserve((void **)&vm->memo, &vm->memo_capacity, slot + 1, sizeof *vm->memo))
		return no_memory(vm);
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

static enum pickle_flow
get(struct pickle_vm *vm, size_t slot)
{
	if (slot >= vm->memo_count || vm->memo[slot].type == PICKLE_UNSET)
		return pickle_refuse(vm, "memo slot %zu holds nothing", slot);
	if (is_container(&vm->memo[slot]))
		vm->memo[slot].object->shared = true;
	return push(vm, vm->memo[slot]);
}

static enum pickle_flow
op_memoize(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return put(vm, vm->memo_count);
}

static enum pickle_flow
op_put1(struct pickle_vm *vm, const uint8_t *arg)
{
	return put(vm, *arg);
}

static enum pickle_flow
op_put4(struct pickle_vm *vm, const uint8_t *arg)
{
	return put(vm, little(arg, 4));
}

static enum pickle_flow
op_get1(struct pickle_vm *vm, const uint8_t *arg)
{
	return get(vm, *arg);
}

static enum pickle_flow
op_get4(struct pickle_vm *vm, const uint8_t *arg)
{
	return get(vm, little(arg, 4));
}

static enum pickle_flow
op_empty_dict(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return push_object(vm, PICKLE_DICT, NULL);
}

static enum pickle_flow
op_empty_list(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return push_object(vm, PICKLE_LIST, NULL);
}

/* The topmost values from `first` on become one tuple. */
static enum pickle_flow
tuple(struct pickle_vm *vm, size_t first)
{
	struct pickle_object *made = pickle_object_new(&vm->store, PICKLE_TUPLE, vm->at);

	if (made == NULL)
		return no_memory(vm);
	if (append(vm, made, first, vm->depth - first) != PICKLE_GO)
		return PICKLE_FAILED;
	vm->depth = first;
	return push(vm, (struct pickle_value){ .type = PICKLE_TUPLE, .object = made });
}

static enum pickle_flow
short_tuple(struct pickle_vm *vm, size_t count)
{
	return need(vm, count) == PICKLE_GO ? tuple(vm, vm->depth - count) : PICKLE_FAILED;
}

static enum pickle_flow
op_empty_tuple(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return tuple(vm, vm->depth);
}

static enum pickle_flow
op_tuple(struct pickle_vm *vm, const uint8_t *arg)
{
	size_t first;

	(void)arg;
	return pop_mark(vm, 0, &first) ? tuple(vm, first) : PICKLE_FAILED;
}

static enum pickle_flow
op_tuple1(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return short_tuple(vm, 1);
}

static enum pickle_flow
op_tuple2(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return short_tuple(vm, 2);
}

static enum pickle_flow
op_tuple3(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return short_tuple(vm, 3);
}

/* The container that takes the values from `first` on, or NULL. */
static struct pickle_object *
owner(struct pickle_vm *vm, size_t first, enum pickle_type type)
{
	struct pickle_value *value = &vm->stack[first - 1];

	if (value->type != type)
		pickle_refuse(vm, "values for a container, but there is no %s", type == PICKLE_DICT ? "dict" : "list");
	else if (value->object->use != 0)
		pickle_refuse(vm, "a %s changes after it was used", type == PICKLE_DICT ? "dict" : "list");
	else
		return value->object;
	return NULL;
}

static enum pickle_flow
set_items(struct pickle_vm *vm, size_t first)
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

static enum pickle_flow
op_setitem(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return need(vm, 3) == PICKLE_GO ? set_items(vm, vm->depth - 2) : PICKLE_FAILED;
}

static enum pickle_flow
op_setitems(struct pickle_vm *vm, const uint8_t *arg)
{
	size_t first;

	(void)arg;
	return pop_mark(vm, 1, &first) ? set_items(vm, first) : PICKLE_FAILED;
}

static enum pickle_flow
append_on(struct pickle_vm *vm)
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

static enum pickle_flow
append_items(struct pickle_vm *vm, size_t first)
{
	enum pickle_flow flow;
	struct pickle_object *list;

	if (vm->stack[first - 1].type != PICKLE_LIST)
		return pickle_refuse(vm, "values for a container, but there is no list");
	flow = vm->user.list_taken(vm->user.context, vm, first - 1);
	if (flow == PICKLE_PAUSE) {
		vm->append_first = vm->append_next = first;
		vm->appending = true;
		return append_on(vm);
	}
	list = flow == PICKLE_GO ? owner(vm, first, PICKLE_LIST) : NULL;
	if (list == NULL || append(vm, list, first, vm->depth - first) != PICKLE_GO)
		return PICKLE_FAILED;
	vm->depth = first;
	return PICKLE_GO;
}

static enum pickle_flow
op_append(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return need(vm, 2) == PICKLE_GO ? append_items(vm, vm->depth - 1) : PICKLE_FAILED;
}

static enum pickle_flow
op_appends(struct pickle_vm *vm, const uint8_t *arg)
{
	size_t first;

	(void)arg;
	return pop_mark(vm, 1, &first) ? append_items(vm, first) : PICKLE_FAILED;
}

static enum pickle_flow
text(struct pickle_vm *vm, uint32_t length)
{
	struct trace_input *in = &vm->reader->input;
	trace_name name;

	if (length > TEXT_LIMIT)
		return pickle_refuse(vm, "a text of %" PRIu32 " bytes, expected at most %" PRIu32, length, TEXT_LIMIT);
	if (!trace_input_have(in, length))
		return PICKLE_CUT;
	if (!trace_names_add(&vm->reader->names, (const char *)in->pos, length, &name))
		return no_memory(vm);
	in->pos += length;
	return push(vm, (struct pickle_value){ .type = PICKLE_TEXT, .name = name });
}

static enum pickle_flow
op_text1(struct pickle_vm *vm, const uint8_t *arg)
{
	return text(vm, *arg);
}

static enum pickle_flow
op_text4(struct pickle_vm *vm, const uint8_t *arg)
{
	return text(vm, (uint32_t)little(arg, 4));
}

static enum pickle_flow
op_int4(struct pickle_vm *vm, const uint8_t *arg)
{
	int32_t value = (int32_t)little(arg, 4);

	return push_number(vm, PICKLE_INT, (uint64_t)(int64_t)value, value < 0);
}

static enum pickle_flow
op_int1(struct pickle_vm *vm, const uint8_t *arg)
{
	return push_number(vm, PICKLE_INT, *arg, false);
}

static enum pickle_flow
op_int2(struct pickle_vm *vm, const uint8_t *arg)
{
	return push_number(vm, PICKLE_INT, little(arg, 2), false);
}

/* Two's complement of `count` bytes.  2^64 - 1 takes nine, the last one 0. */
static enum pickle_flow
op_long1(struct pickle_vm *vm, const uint8_t *arg)
{
	struct trace_input *in = &vm->reader->input;
	size_t count = *arg;
	const uint8_t *bytes;
	uint64_t value;
	bool negative;

	if (!trace_input_have(in, count))
		return PICKLE_CUT;
	bytes = in->pos;
	in->pos += count;
	negative = count > 0 && bytes[count - 1] >= 0x80;
	while (count > 8 && bytes[count - 1] == (negative ? 0xff : 0))
		count--;
	if (count > 8 || (count == 8 && negative && bytes[7] < 0x80))
		return push_number(vm, PICKLE_HUGE, 0, negative);
	value = little(bytes, count);
	if (negative && count < 8)
		value |= ~(uint64_t)0 << 8 * count;
	return push_number(vm, PICKLE_INT, value, negative);
}

static enum pickle_flow
op_float(struct pickle_vm *vm, const uint8_t *arg)
{
	struct pickle_value value = { .type = PICKLE_FLOAT };
	uint64_t bits = 0;

	for (int i = 0; i < 8; i++)
		bits = bits << 8 | arg[i];
	memcpy(&value.real, &bits, sizeof bits);
	return push(vm, value);
}

static enum pickle_flow
op_true(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return push_number(vm, PICKLE_BOOL, 1, false);
}

static enum pickle_flow
op_false(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return push_number(vm, PICKLE_BOOL, 0, false);
}

static enum pickle_flow
op_none(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return push_number(vm, PICKLE_NONE, 0, false);
}

/* Every opcode there is; those without a function are refused. */
static const struct opcode {
	const char *name;
	uint8_t arg; /* bytes of fixed argument */
	enum pickle_flow (*run)(struct pickle_vm *vm, const uint8_t *arg);
} opcodes[256] = {
	[0x80] = { "PROTO", 1, op_proto },
	[0x95] = { "FRAME", 8, op_frame },
	['.'] = { "STOP", 0, op_stop },
	['('] = { "MARK", 0, op_mark },
	[0x94] = { "MEMOIZE", 0, op_memoize },
	['q'] = { "BINPUT", 1, op_put1 },
	['r'] = { "LONG_BINPUT", 4, op_put4 },
	['h'] = { "BINGET", 1, op_get1 },
	['j'] = { "LONG_BINGET", 4, op_get4 },
	['}'] = { "EMPTY_DICT", 0, op_empty_dict },
	[']'] = { "EMPTY_LIST", 0, op_empty_list },
	[')'] = { "EMPTY_TUPLE", 0, op_empty_tuple },
	['t'] = { "TUPLE", 0, op_tuple },
	[0x85] = { "TUPLE1", 0, op_tuple1 },
	[0x86] = { "TUPLE2", 0, op_tuple2 },
	[0x87] = { "TUPLE3", 0, op_tuple3 },
	['s'] = { "SETITEM", 0, op_setitem },
	['u'] = { "SETITEMS", 0, op_setitems },
	['a'] = { "APPEND", 0, op_append },
	['e'] = { "APPENDS", 0, op_appends },
	[0x8c] = { "SHORT_BINUNICODE", 1, op_text1 },
	['X'] = { "BINUNICODE", 4, op_text4 },
	['J'] = { "BININT", 4, op_int4 },
	['K'] = { "BININT1", 1, op_int1 },
	['M'] = { "BININT2", 2, op_int2 },
	[0x8a] = { "LONG1", 1, op_long1 },
	['G'] = { "BINFLOAT", 8, op_float },
	[0x88] = { "NEWTRUE", 0, op_true },
	[0x89] = { "NEWFALSE", 0, op_false },
	['N'] = { "NONE", 0, op_none },
	['0'] = { "POP", 0, NULL },
	['1'] = { "POP_MARK", 0, NULL },
	['2'] = { "DUP", 0, NULL },
	['F'] = { "FLOAT", 0, NULL },
	['I'] = { "INT", 0, NULL },
	['L'] = { "LONG", 0, NULL },
	['P'] = { "PERSID", 0, NULL },
	['Q'] = { "BINPERSID", 0, NULL },
	['R'] = { "REDUCE", 0, NULL },
	['S'] = { "STRING", 0, NULL },
	['T'] = { "BINSTRING", 0, NULL },
	['U'] = { "SHORT_BINSTRING", 0, NULL },
	['V'] = { "UNICODE", 0, NULL },
	['B'] = { "BINBYTES", 0, NULL },
	['C'] = { "SHORT_BINBYTES", 0, NULL },
	['b'] = { "BUILD", 0, NULL },
	['c'] = { "GLOBAL", 0, NULL },
	['d'] = { "DICT", 0, NULL },
	['g'] = { "GET", 0, NULL },
	['i'] = { "INST", 0, NULL },
	['l'] = { "LIST", 0, NULL },
	['o'] = { "OBJ", 0, NULL },
	['p'] = { "PUT", 0, NULL },
	[0x81] = { "NEWOBJ", 0, NULL },
	[0x82] = { "EXT1", 0, NULL },
	[0x83] = { "EXT2", 0, NULL },
	[0x84] = { "EXT4", 0, NULL },
	[0x8b] = { "LONG4", 0, NULL },
	[0x8d] = { "BINUNICODE8", 0, NULL },
	[0x8e] = { "BINBYTES8", 0, NULL },
	[0x8f] = { "EMPTY_SET", 0, NULL },
	[0x90] = { "ADDITEMS", 0, NULL },
	[0x91] = { "FROZENSET", 0, NULL },
	[0x92] = { "NEWOBJ_EX", 0, NULL },
	[0x93] = { "STACK_GLOBAL", 0, NULL },
	[0x96] = { "BYTEARRAY8", 0, NULL },
	[0x97] = { "NEXT_BUFFER", 0, NULL },
	[0x98] = { "READONLY_BUFFER", 0, NULL },
};

static enum pickle_flow
refuse_opcode(struct pickle_vm *vm, uint8_t code)
{
	if (opcodes[code].name == NULL)
		return pickle_refuse(vm, "0x%02x is no pickle opcode", code);
	return pickle_refuse(vm, "opcode %s refused: a memory snapshot holds only plain data", opcodes[code].name);
}

enum pickle_flow
pickle_run(struct pickle_vm *vm)
{
	struct trace_input *in = &vm->reader->input;
	enum pickle_flow flow = vm->appending ? append_on(vm) : PICKLE_GO;

	while (flow == PICKLE_GO) {
		const struct opcode *op;
		const uint8_t *arg;

		vm->at = trace_input_offset(in);
		if (!trace_input_have(in, 1))
			return PICKLE_CUT;
		op = &opcodes[*in->pos];
		if (op->run == NULL)
			return refuse_opcode(vm, *in->pos);
		if (!trace_input_have(in, 1 + (size_t)op->arg))
			return PICKLE_CUT;
		arg = in->pos + 1;
		in->pos += 1 + op->arg;
		flow = op->run(vm, arg);
	}
	return flow;
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

void
pickle_reset(struct pickle_vm *vm)
{
	pickle_store_reset(&vm->store);
	vm->depth = vm->mark_count = 0;
	vm->memo_count = vm->memo_used = 0;
	vm->appending = false;
}

void
pickle_fini(struct pickle_vm *vm)
{
	pickle_reset(vm);
	trace_release(vm->stack);
	trace_release(vm->mark);
	trace_release(vm->memo);
	vm->stack = vm->memo = NULL;
	vm->mark = NULL;
	vm->stack_capacity = vm->mark_capacity = vm->memo_capacity = 0;
}
