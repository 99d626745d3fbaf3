/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over six streams: ordered ones give no report; with one wait taken
 * out there is a report exactly when an oracle that shares nothing with the clocks, reachability in
 * the graph of all operations, finds two accesses without a path.
 */
#include "tests/check_guard_support.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

#define STREAMS 6 /* 0 legacy, 1 and 2 blocking, the others not */
#define BLOCKS 24
#define EVENTS 5
#define NEVER UINT32_MAX

enum kind { ALLOC, USE, FREE, RECORD, WAIT, SYNC, SYNC_ALL };

struct op {
	enum kind kind;
	unsigned stream, block, event;
	int access;
	uint32_t recorded; /* WAIT: the op that recorded the event */
};

struct program {
	struct op *ops;
	uint32_t count, room;
	uint64_t random;
	struct {
		bool live, written;
		unsigned alloc, writer;
		unsigned readers; /* bits */
	} blocks[BLOCKS];
};

static uint32_t
pick(struct program *program, uint32_t below)
{
	program->random = program->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(program->random >> 33) % below;
}

static void
put(struct program *program, struct op op)
{
	if (program->count < program->room)
		program->ops[program->count++] = op;
}

static void
put_order(struct program *program, unsigned from, unsigned to)
{
	unsigned event = pick(program, EVENTS);

	if (from == to || program->count + 2 > program->room)
		return;
	put(program, (struct op){ .kind = RECORD, .stream = from, .event = event });
	put(program,
	    (struct op){ .kind = WAIT, .stream = to, .event = event, .recorded = program->count - 1 });
}

static void
put_orders(struct program *program, unsigned block, unsigned to, bool readers_too)
{
	put_order(program, program->blocks[block].alloc, to);
	if (program->blocks[block].written)
		put_order(program, program->blocks[block].writer, to);
	for (unsigned s = 0; readers_too && s < STREAMS; s++)
		if (program->blocks[block].readers & 1u << s)
			put_order(program, s, to);
}

static void
put_use(struct program *program, unsigned block, unsigned stream)
{
	int access = program->blocks[block].written ? 1 + (int)pick(program, 3) : SOMA_BACKEND_ACCESS_WRITE;
	bool writes = access & SOMA_BACKEND_ACCESS_WRITE;

	put_orders(program, block, stream, writes);
	put(program, (struct op){ .kind = USE, .stream = stream, .block = block, .access = access });
	if (writes) {
		program->blocks[block].written = true;
		program->blocks[block].writer = stream;
		program->blocks[block].readers = 0;
	} else {
		program->blocks[block].readers |= 1u << stream;
	}
}

/* All orders that are needed are there, and more.  Room for a whole step is left each time. */
static struct program
generate(uint64_t seed, uint32_t room)
{
	struct program program = { .ops = calloc(room, sizeof(struct op)), .room = room, .random = seed };

	while (program.count + 2 * STREAMS + 6 < room) {
		unsigned block = pick(&program, BLOCKS), stream = pick(&program, STREAMS);
		uint32_t what = pick(&program, 100);
		if (what < 3) {
			put(&program, (struct op){ .kind = what < 2 ? SYNC : SYNC_ALL, .stream = stream });
		} else if (!program.blocks[block].live) {
			memset(&program.blocks[block], 0, sizeof program.blocks[block]);
			program.blocks[block].live = true;
			program.blocks[block].alloc = stream;
			put(&program, (struct op){ .kind = ALLOC, .stream = stream, .block = block });
		} else if (what < 15) {
			put_orders(&program, block, stream, true);
			put(&program, (struct op){ .kind = FREE, .stream = stream, .block = block });
			program.blocks[block].live = false;
		} else {
			put_use(&program, block, stream);
		}
	}
	return program;
}

/* ---- running it under the guard ------------------------------------------------------- */

static void
run_op(struct fixture *f, const struct op *op, struct soma_backend_stream **streams,
       struct soma_backend_event **events, unsigned char **memory)
{
	struct soma_backend_stream *stream = streams[op->stream];

	switch (op->kind) {
	case ALLOC:
		memory[op->block] = take(f, 64 + op->block * 8, stream);
		break;
	case USE:
		use(f, memory[op->block], op->access, stream);
		break;
	case FREE:
		f->ops->free(f->g, (uintptr_t)memory[op->block], 64 + op->block * 8, stream);
		break;
	case RECORD:
		ck_assert_int_eq(f->ops->event_record(f->g, events[op->event], stream), SOMA_STATUS_OK);
		break;
	case WAIT:
		ck_assert_int_eq(f->ops->event_wait(f->g, events[op->event], stream), SOMA_STATUS_OK);
		break;
	case SYNC:
		sync_stream(f, stream);
		break;
	case SYNC_ALL:
		ck_assert_int_eq(f->ops->synchronize(f->g), SOMA_STATUS_OK);
		break;
	}
}

/* How many reports there are; stops at the first.  Leaks are not counted. */
static unsigned
run(const struct program *program, enum inner_kind kind, uint32_t without)
{
	const char *options[] = { "backtrace", "0", "quarantine_blocks", "64", NULL };
	struct soma_backend_stream *streams[STREAMS];
	struct soma_backend_event *events[EVENTS];
	unsigned char *memory[BLOCKS];
	struct fixture *f = calloc(1, sizeof *f);

	fixture_open(f, kind, options);
	streams[0] = legacy_stream(f);
	for (unsigned i = 1; i < STREAMS; i++)
		streams[i] = make_stream(f, i < 3 ? 0 : SOMA_BACKEND_STREAM_NON_BLOCKING);
	for (unsigned i = 0; i < EVENTS; i++)
		events[i] = make_event(f);
	for (uint32_t i = 0; i < program->count && f->report_count == 0; i++)
		if (i != without)
			run_op(f, &program->ops[i], streams, events, memory);
	unsigned reports = f->report_count;
	if (reports > 0 && without == NEVER)
		ck_abort_msg("inner %d: %s", (int)kind, f->reports[0].text);
	fixture_close(f);
	fixture_forget_reports(f);
	free(f);
	return reports;
}

/* ---- the oracle ----------------------------------------------------------------------- */

struct graph {
	uint32_t (*before)[STREAMS + 2]; /* of each op: NEVER where there is none */
	bool *reached;
};

static bool
is_blocking(unsigned stream)
{
	return stream == 1 || stream == 2;
}

static struct graph
make_graph(const struct program *program, uint32_t without)
{
	struct graph graph = { calloc(program->count, sizeof *graph.before), calloc(program->count, 1) };
	uint32_t last[STREAMS], host = NEVER;

	memset(last, 0xff, sizeof last);
	for (uint32_t i = 0; i < program->count; i++) {
		const struct op *op = &program->ops[i];
		uint32_t *before = graph.before[i];
		memset(before, 0xff, sizeof graph.before[i]);
		if (i == without)
			continue;
		before[STREAMS] = host;
		if (op->kind == WAIT)
			before[STREAMS + 1] = op->recorded;
		for (unsigned s = 0; s < STREAMS; s++)
			if (s == op->stream || op->kind == SYNC_ALL || (s == 0 && is_blocking(op->stream)) ||
			    (op->stream == 0 && is_blocking(s)))
				before[s] = last[s];
		if (op->kind == SYNC || op->kind == SYNC_ALL)
			host = i;
		last[op->stream] = i;
	}
	return graph;
}

/* Marks all ops that come after op `from`, up to `end`. */
static void
reach(struct graph *graph, uint32_t from, uint32_t end)
{
	memset(graph->reached + from, 0, end - from);
	graph->reached[from] = true;
	for (uint32_t i = from + 1; i < end; i++)
		for (unsigned k = 0; k < STREAMS + 2 && !graph->reached[i]; k++) {
			uint32_t before = graph->before[i][k];
			graph->reached[i] = before != NEVER && before >= from && graph->reached[before];
		}
}

static bool
conflicts(const struct op *first, const struct op *second)
{
	if (first->kind == ALLOC || second->kind == FREE)
		return true;
	return (first->access | second->access) & SOMA_BACKEND_ACCESS_WRITE;
}

static bool
touches(const struct op *op)
{
	return op->kind == ALLOC || op->kind == USE || op->kind == FREE;
}

/* Whether some access is not after an earlier one that it conflicts with. */
static bool
oracle_objects(const struct program *program, uint32_t without)
{
	struct graph graph = make_graph(program, without);
	bool objects = false;

	for (uint32_t i = 0; i < program->count && !objects; i++) {
		const struct op *first = &program->ops[i];
		if (!touches(first) || first->kind == FREE)
			continue;
		reach(&graph, i, program->count);
		for (uint32_t j = i + 1; j < program->count && !objects; j++) {
			const struct op *second = &program->ops[j];
			if (!touches(second) || second->block != first->block)
				continue;
			objects = conflicts(first, second) && !graph.reached[j];
			if (second->kind == FREE)
				break;
		}
	}
	free(graph.before);
	free(graph.reached);
	return objects;
}

START_TEST(ordered_programs_give_no_report)
{
	struct program program = generate(1, 100000);

	for (int kind = 0; kind < INNER_KINDS; kind++)
		ck_assert_uint_eq(run(&program, (enum inner_kind)kind, NEVER), 0);
	free(program.ops);
}
END_TEST

START_TEST(the_oracle_accepts_ordered_programs)
{
	for (uint64_t seed = 100; seed < 110; seed++) {
		struct program program = generate(seed, 800);
		ck_assert(!oracle_objects(&program, NEVER));
		free(program.ops);
	}
}
END_TEST

START_TEST(a_program_without_one_wait_is_reported_exactly_when_it_matters)
{
	unsigned mattered = 0, tried = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		struct program program = generate(seed * 77, 300);
		uint32_t without = pick(&program, program.count);
		while (program.ops[without].kind != WAIT)
			without = (without + 1) % program.count;
		bool expected = oracle_objects(&program, without);
		bool reported = run(&program, (enum inner_kind)(seed % INNER_KINDS), without) > 0;
		ck_assert_msg(expected == reported, "seed %llu, without %u: the oracle says %d, the guard %d",
			      (unsigned long long)seed, without, expected, reported);
		mattered += expected;
		tried++;
		free(program.ops);
	}
	/* Else the programs would test nothing. */
	ck_assert_uint_gt(mattered, tried / 10);
}
END_TEST

UNIT_MAIN("guard random", ordered_programs_give_no_report, the_oracle_accepts_ordered_programs,
	  a_program_without_one_wait_is_reported_exactly_when_it_matters)
