/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pickle machine: its opcodes, one function each, and the loop that runs them.
 * What they do to the stack, the memo and containers is in stack.c.
 */
#include "tools/trace/pickle.h"

#include <inttypes.h>
#include <string.h>

#include "tools/trace/memory.h"
#include "tools/trace/stack.h"

#define MARK_LIMIT 4096 /* nesting; a snapshot has a dozen */
#define TEXT_LIMIT ((uint32_t)16 << 20)

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
		return pickle_no_memory(vm);
	vm->mark[vm->mark_count++] = vm->depth;
	return PICKLE_GO;
}

static enum pickle_flow
op_memoize(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_put(vm, vm->memo_count);
}

static enum pickle_flow
op_put1(struct pickle_vm *vm, const uint8_t *arg)
{
	return pickle_put(vm, *arg);
}

static enum pickle_flow
op_put4(struct pickle_vm *vm, const uint8_t *arg)
{
	return pickle_put(vm, (uint32_t)little(arg, 4));
}

static enum pickle_flow
op_get1(struct pickle_vm *vm, const uint8_t *arg)
{
	return pickle_get(vm, *arg);
}

static enum pickle_flow
op_get4(struct pickle_vm *vm, const uint8_t *arg)
{
	return pickle_get(vm, (uint32_t)little(arg, 4));
}

static enum pickle_flow
op_empty_dict(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_push_object(vm, PICKLE_DICT);
}

static enum pickle_flow
op_empty_list(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_push_object(vm, PICKLE_LIST);
}

static enum pickle_flow
short_tuple(struct pickle_vm *vm, size_t count)
{
	return pickle_need(vm, count) == PICKLE_GO ? pickle_tuple(vm, vm->depth - count) : PICKLE_FAILED;
}

static enum pickle_flow
op_empty_tuple(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_tuple(vm, vm->depth);
}

static enum pickle_flow
op_tuple(struct pickle_vm *vm, const uint8_t *arg)
{
	size_t first;

	(void)arg;
	return pickle_pop_mark(vm, 0, &first) ? pickle_tuple(vm, first) : PICKLE_FAILED;
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

static enum pickle_flow
op_setitem(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_need(vm, 3) == PICKLE_GO ? pickle_set_items(vm, vm->depth - 2) : PICKLE_FAILED;
}

static enum pickle_flow
op_setitems(struct pickle_vm *vm, const uint8_t *arg)
{
	size_t first;

	(void)arg;
	return pickle_pop_mark(vm, 1, &first) ? pickle_set_items(vm, first) : PICKLE_FAILED;
}

static enum pickle_flow
op_append(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_need(vm, 2) == PICKLE_GO ? pickle_append_items(vm, vm->depth - 1) : PICKLE_FAILED;
}

static enum pickle_flow
op_appends(struct pickle_vm *vm, const uint8_t *arg)
{
	size_t first;

	(void)arg;
	return pickle_pop_mark(vm, 1, &first) ? pickle_append_items(vm, first) : PICKLE_FAILED;
}

static enum pickle_flow
text(struct pickle_vm *vm, uint32_t length)
{
	struct trace_input *in = &vm->reader->input;
	trace_name name;

	if (length > TEXT_LIMIT)
		return pickle_refuse(vm, "a text of %" PRIu32 " bytes, expected at most %" PRIu32, length,
				     TEXT_LIMIT);
	if (!trace_input_have(in, length))
		return PICKLE_CUT;
	if (!trace_names_add(&vm->reader->names, (const char *)in->pos, length, &name))
		return pickle_no_memory(vm);
	in->pos += length;
	return pickle_push(vm, (struct pickle_value){ .type = PICKLE_TEXT, .name = name });
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

	return pickle_push_number(vm, PICKLE_INT, (uint64_t)(int64_t)value, value < 0);
}

static enum pickle_flow
op_int1(struct pickle_vm *vm, const uint8_t *arg)
{
	return pickle_push_number(vm, PICKLE_INT, *arg, false);
}

static enum pickle_flow
op_int2(struct pickle_vm *vm, const uint8_t *arg)
{
	return pickle_push_number(vm, PICKLE_INT, little(arg, 2), false);
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
		return pickle_push_number(vm, PICKLE_HUGE, 0, negative);
	value = little(bytes, count);
	if (negative && count < 8)
		value |= ~(uint64_t)0 << 8 * count;
	return pickle_push_number(vm, PICKLE_INT, value, negative);
}

static enum pickle_flow
op_float(struct pickle_vm *vm, const uint8_t *arg)
{
	struct pickle_value value = { .type = PICKLE_FLOAT };
	uint64_t bits = 0;

	for (int i = 0; i < 8; i++)
		bits = bits << 8 | arg[i];
	memcpy(&value.real, &bits, sizeof bits);
	return pickle_push(vm, value);
}

static enum pickle_flow
op_true(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_push_number(vm, PICKLE_BOOL, 1, false);
}

static enum pickle_flow
op_false(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_push_number(vm, PICKLE_BOOL, 0, false);
}

static enum pickle_flow
op_none(struct pickle_vm *vm, const uint8_t *arg)
{
	(void)arg;
	return pickle_push_number(vm, PICKLE_NONE, 0, false);
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
	return pickle_refuse(vm, "opcode %s refused: a memory snapshot holds only plain data",
			     opcodes[code].name);
}

enum pickle_flow
pickle_run(struct pickle_vm *vm)
{
	struct trace_input *in = &vm->reader->input;
	enum pickle_flow flow = vm->appending ? pickle_append_on(vm) : PICKLE_GO;

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
