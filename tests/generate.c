/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences; see generate.h.  The proportions are drawn anew for each
 * sequence, so that some never synchronise, some are all streams, some are starved.
 */
#include "tests/generate.h"

#include <stdlib.h>

#include "tests/random.h"

uint64_t
generate_random(struct generator *g)
{
	return random_next(&g->state);
}

uint64_t
generate_below(struct generator *g, uint64_t limit)
{
	return generate_random(g) % limit;
}

bool
generate_one_in(struct generator *g, uint64_t n)
{
	return generate_below(g, n) == 0;
}

/* 1 to limit, every magnitude as likely as the next. */
uint64_t
generate_log_uniform(struct generator *g, uint64_t limit)
{
	unsigned bits = 0;
	uint64_t n;

	while (bits < 63 && limit >> bits > 1)
		bits++;
	n = (uint64_t)1 << generate_below(g, bits + 1);
	n += generate_below(g, n);
	return n > limit ? limit : n;
}

static void
list_add(struct generator *g, struct label_list *list, unsigned label)
{
	unsigned room = sizeof list->at / sizeof list->at[0];

	if (list->count < room)
		list->at[list->count++] = label;
	else
		list->at[generate_below(g, room)] = label;
}

static unsigned
list_pick(struct generator *g, const struct label_list *list)
{
	return list->at[generate_below(g, list->count)];
}

/* ---- the beginning ---------------------------------------------------------- */

/* Each kind's weight is its usual one, or none, or many times that. */
static void
random_weights(struct generator *g)
{
	static const unsigned usual[OP_KINDS] = {
		[OP_ALLOC] = 100,       [OP_FREE] = 100,          [OP_FREE_ADDRESS] = 1,
		[OP_STREAM_CREATE] = 8, [OP_STREAM_DESTROY] = 6,  [OP_RECORD] = 16,
		[OP_WAIT] = 16,         [OP_WAIT_BACK] = 8,       [OP_ADVANCE] = 16,
		[OP_SYNCHRONIZE] = 6,   [OP_SYNCHRONIZE_ALL] = 1, [OP_TRIM] = 4,
		[OP_THRESHOLD] = 2,     [OP_RESET_PEAKS] = 2,     [OP_ADOPT_SEGMENT] = 1,
		[OP_ADOPT_BLOCK] = 3,   [OP_RELEASE_SEGMENT] = 2,
	};

	for (unsigned i = 0; i < OP_KINDS; i++) {
		g->weight[i] = usual[i];
		if (i == OP_ALLOC || i == OP_FREE)
			continue;
		if (generate_one_in(g, 4))
			g->weight[i] = 0;
		else if (generate_one_in(g, 4))
			g->weight[i] *= 3;
	}
}

/* Mapped pages that are all needed, and free ones that are kept: they are moved all the time. */
static void
make_tight(struct generator *g, struct sequence *sequence)
{
	uint64_t pages = 4 + generate_log_uniform(g, 100);

	g->page = sequence->policy.pools[0].segment_step;
	g->live_target = (unsigned)(pages / 4) + 2;
	sequence->limits.max_pool_size = g->page * pages + generate_below(g, g->page);
	sequence->limits.release_threshold = UINT64_MAX;
	if (sequence->refuse_every > 0 && generate_one_in(g, 2))
		sequence->refuse_every = 2 + (unsigned)generate_below(g, 3);
	g->weight[OP_ALLOC] = g->weight[OP_FREE] = 200;
	g->weight[OP_ADVANCE] = 60;
	g->weight[OP_THRESHOLD] = 0;
	if (generate_one_in(g, 2))
		g->weight[OP_STREAM_CREATE] = 0;
	if (!generate_one_in(g, 4))
		g->weight[OP_TRIM] = 0;
}

void
generate_begin(struct generator *g, uint64_t seed, const char *preset, unsigned count,
	       struct sequence *sequence)
{
	*g = (struct generator){ .state = seed, .sequence = sequence, .next_label = 1 };
	*sequence = (struct sequence){ .labels = count + 1 };
	if (preset != GENERATE_CUSTOM)
		sequence->policy = *soma_policy_preset(preset);
	else
		generate_policy(g, &sequence->policy);
	g->live_target = (unsigned)generate_log_uniform(g, generate_one_in(g, 2) ? 30 : 250) + 2;
	g->granules = generate_typical_granules(g, &sequence->policy);
	generate_limits(g, sequence);
	random_weights(g);
	if (sequence->policy.segments == SOMA_SEGMENTS_MAPPED && !generate_one_in(g, 3))
		make_tight(g, sequence);
	for (unsigned i = 0; i < 8; i++)
		g->palette[i] = generate_log_uniform(g, g->granules * sequence->policy.alignment);
}

/* ---- operations ------------------------------------------------------------ */

static uint64_t
random_size(struct generator *g)
{
	static const uint64_t huge[] = {
		0,          SOMA_MODEL_ADDRESS_MAX, SOMA_MODEL_ADDRESS_MAX + 1, UINT64_MAX - 300,
		UINT64_MAX, (uint64_t)1 << 47
	};
	uint64_t alignment = g->sequence->policy.alignment;

	if (g->page > 0 && !generate_one_in(g, 4))
		return g->page * generate_log_uniform(g, 8) + generate_below(g, g->page) + 1;
	switch (generate_below(g, 16)) {
	case 0:
		return generate_one_in(g, 8) ? huge[generate_below(g, 6)] : 1 + generate_below(g, alignment);
	case 1:
	case 2: /* around the classes' borders */
		return alignment * (56 + generate_below(g, 80));
	case 3:
	case 4:
	case 5:
	case 6:
		return g->palette[generate_below(g, 8)];
	case 7:
		return g->granules * alignment + generate_below(g, g->granules * alignment);
	default:
		return generate_log_uniform(g, g->granules * alignment);
	}
}

/* Mostly one of a few, so that streams meet their own blocks again. */
static unsigned
random_stream(struct generator *g)
{
	if (generate_one_in(g, 200))
		return LABEL_UNKNOWN;
	if (g->streams.count == 0 || generate_one_in(g, 6))
		return 0;
	return list_pick(g, &g->streams);
}

static void
choose_free(struct generator *g, struct op *op)
{
	op->kind = OP_FREE;
	if (g->live.count == 0 || (g->dead.count > 0 && generate_one_in(g, 60))) {
		if (g->dead.count == 0)
			op->kind = OP_RESET_PEAKS;
		else
			op->other = list_pick(g, &g->dead);
		return;
	}
	/* Often the latest: neighbours, and the last put on a shelf. */
	op->other = generate_one_in(g, 3) ? g->live.at[g->live.count - 1] : list_pick(g, &g->live);
	if (generate_one_in(g, 60))
		op->size = generate_one_in(g, 2) ? g->sequence->policy.alignment : 1;
}

static void
choose_wait(struct generator *g, struct op *op)
{
	if (op->kind == OP_WAIT && g->events.count > 0) {
		op->other =
			generate_one_in(g, 2) ? g->events.at[g->events.count - 1] : list_pick(g, &g->events);
		return;
	}
	op->kind = OP_WAIT_BACK;
	op->other = random_stream(g);
	op->back = (int64_t)generate_below(g, 20) - 1;
}

static void
choose_advance(struct generator *g, struct op *op)
{
	op->back = (int64_t)generate_log_uniform(g, 64) - 2;
	if (generate_one_in(g, 3))
		op->back = 0;
}

struct chosen {
	struct generator *g;
	enum soma_extent_kind kind;
	struct soma_extent extent;
	uint64_t seen;
};

/* Any of the extents of a kind, each as likely. */
static bool
choose_extent(void *context, const struct soma_extent *extent)
{
	struct chosen *chosen = context;

	if (extent->kind == chosen->kind && generate_one_in(chosen->g, ++chosen->seen))
		chosen->extent = *extent;
	return true;
}

static struct soma_extent
random_extent(struct generator *g, struct run *run, enum soma_extent_kind kind)
{
	struct chosen chosen = { .g = g, .kind = kind };

	run->pair->engine[1]->walk(run->handle[1], choose_extent, &chosen);
	return chosen.extent;
}

static void
choose_adopt_block(struct generator *g, struct run *run, struct op *op)
{
	struct soma_extent in =
		random_extent(g, run, generate_one_in(g, 10) ? SOMA_EXTENT_PENDING : SOMA_EXTENT_FREE);
	uint64_t alignment = g->sequence->policy.alignment;
	uint64_t granules = in.size / alignment + 1;
	uint64_t skip = generate_one_in(g, 2) ? 0 : generate_below(g, granules);

	op->address = in.address + skip * alignment;
	op->capacity = generate_one_in(g, 4) ? in.size - skip * alignment
					     : generate_below(g, granules - skip + 1) * alignment;
	op->size = op->capacity - (op->capacity > 0 ? generate_below(g, alignment) : 0);
	if (generate_one_in(g, 20))
		op->size = generate_one_in(g, 2) ? 0 : op->capacity + 1;
	if (generate_one_in(g, 20))
		op->address += generate_one_in(g, 2) ? 1 : 256;
}

static void
choose_adopt_segment(struct generator *g, struct run *run, struct op *op)
{
	struct soma_extent near = random_extent(g, run, SOMA_EXTENT_SEGMENT);
	uint64_t alignment = g->sequence->policy.alignment;

	op->flags = (unsigned)generate_below(g, generate_one_in(g, 10) ? 3 : g->sequence->policy.pool_count);
	op->size = alignment * generate_log_uniform(g, g->granules);
	op->address = near.address + near.size + alignment * generate_below(g, 2 * g->granules);
	if (generate_one_in(g, 4))
		op->address = alignment * generate_below(g, 100000);
	if (g->sequence->refuse_every > 0) /* the source gives what is below */
		op->address = SOURCE_END + alignment * generate_below(g, 2 * g->granules * g->live_target);
	if (generate_one_in(g, 20))
		op->address += 1;
	if (generate_one_in(g, 20))
		op->size += 1;
}

static void
choose_kind(struct generator *g, struct op *op)
{
	unsigned sum = 0, n;

	for (unsigned i = 0; i < OP_KINDS; i++)
		sum += g->weight[i];
	n = (unsigned)generate_below(g, sum);
	op->kind = OP_ALLOC;
	while (n >= g->weight[op->kind])
		n -= g->weight[op->kind++];
	if (op->kind == OP_ALLOC && g->live.count > g->live_target)
		op->kind = OP_FREE;
	else if (op->kind == OP_FREE && 2 * g->live.count < g->live_target && generate_one_in(g, 2))
		op->kind = OP_ALLOC;
	if (op->kind == OP_STREAM_CREATE && g->streams.count >= 12)
		op->kind = OP_STREAM_DESTROY;
}

static struct op
choose(struct generator *g, struct run *run)
{
	struct op op = { .label = g->next_label, .stream = random_stream(g) };
	uint64_t near = g->granules * g->sequence->policy.alignment * g->live_target;

	choose_kind(g, &op);
	switch (op.kind) {
	case OP_ALLOC:
		op.size = random_size(g);
		break;
	case OP_FREE:
		choose_free(g, &op);
		break;
	case OP_FREE_ADDRESS:
		op.address = generate_one_in(g, 4) ? 0 : generate_random(g) >> generate_below(g, 64);
		break;
	case OP_STREAM_CREATE:
		op.stream = 0;
		op.flags = generate_one_in(g, 50) ? 2 : (unsigned)generate_below(g, 2);
		break;
	case OP_WAIT:
	case OP_WAIT_BACK:
		choose_wait(g, &op);
		break;
	case OP_ADVANCE:
		choose_advance(g, &op);
		break;
	case OP_TRIM:
	case OP_THRESHOLD:
		op.size = generate_one_in(g, 4) ? UINT64_MAX * generate_below(g, 2) : generate_below(g, near);
		break;
	case OP_ADOPT_SEGMENT:
		choose_adopt_segment(g, run, &op);
		break;
	case OP_ADOPT_BLOCK:
		choose_adopt_block(g, run, &op);
		break;
	case OP_RELEASE_SEGMENT:
		op.address = random_extent(g, run, SOMA_EXTENT_SEGMENT).address +
			     (generate_one_in(g, 10) ? 256 : 0);
		break;
	default:
		break;
	}
	return op;
}

/* ---- what the results say -------------------------------------------------- */

static void
forget_freed(struct generator *g, const struct run *run, uint64_t ptr)
{
	for (unsigned i = 0; i < g->live.count; i++) {
		if (run->allocs[g->live.at[i]].ptr != ptr)
			continue;
		list_add(g, &g->dead, g->live.at[i]);
		g->live.at[i] = g->live.at[--g->live.count];
		return;
	}
}

static void
forget_stream(struct generator *g, unsigned label)
{
	for (unsigned i = 0; i < g->streams.count; i++)
		if (g->streams.at[i] == label)
			g->streams.at[i] = g->streams.at[--g->streams.count];
}

static void
learn(struct generator *g, const struct op *op, const struct run *run)
{
	bool ok = run->status == SOMA_STATUS_OK;

	if (ok && (op->kind == OP_ALLOC || op->kind == OP_ADOPT_BLOCK))
		list_add(g, &g->live, op->label);
	else if (ok && op->kind == OP_FREE)
		forget_freed(g, run, run->allocs[op->other].ptr + op->size);
	else if (ok && op->kind == OP_STREAM_CREATE)
		list_add(g, &g->streams, op->label);
	else if (ok && op->kind == OP_RECORD)
		list_add(g, &g->events, op->label);
	/* Some destroyed streams are advanced, and used wrongly, for a while. */
	else if (op->kind == OP_STREAM_DESTROY && op->stream != 0 && (!ok || !generate_one_in(g, 4)))
		forget_stream(g, op->stream);
}

bool
generate_step(struct generator *g, struct run *run)
{
	struct op op = choose(g, run);

	sequence_append(g->sequence, op);
	g->next_label++;
	if (!run_op(run, &op))
		return false;
	learn(g, &op, run);
	return true;
}
