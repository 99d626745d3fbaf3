/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence as a person reads it: the policy as an initialiser, then a line an
 * operation, s3 being the stream, a3 the block and e3 the event made by operation 3.
 */
#include "tests/sequence.h"

#include <inttypes.h>

static void
print_row(FILE *out, const struct soma_policy_pool *row)
{
	fprintf(out,
		"  pool: request_max %" PRIu64 ", segment_size %" PRIu64 ", segment_max %" PRIu64
		", segment_step %" PRIu64 ", split_min %" PRIu64 "\n",
		row->request_max, row->segment_size, row->segment_max, row->segment_step, row->split_min);
}

static void
print_policy(FILE *out, const struct soma_policy *p)
{
	fprintf(out, "policy %s: alignment %" PRIu64 ", fit %s, segments %s, reuse%s%s%s%s%s%s\n", p->name,
		p->alignment, p->fit == SOMA_FIT_GOOD ? "good" : "best",
		p->segments == SOMA_SEGMENTS_MAPPED  ? "mapped"
		: p->segments == SOMA_SEGMENTS_RANGE ? "range"
						     : "step",
		p->reuse & SOMA_REUSE_SAME_STREAM ? " same-stream" : "",
		p->reuse & SOMA_REUSE_FOLLOW_EVENTS ? " follow-events" : "",
		p->reuse & SOMA_REUSE_OPPORTUNISTIC ? " opportunistic" : "",
		p->reuse & SOMA_REUSE_INTERNAL ? " internal" : "", p->per_stream ? ", per stream" : "",
		p->release_on_failure ? ", release on failure" : "");
	fprintf(out, "  batch %u above %" PRIu64 "\n", p->batch, p->batch_above);
	if (p->oversize != 0 || p->collect_above != 0)
		fprintf(out, "  oversize %" PRIu64 ", slack %" PRIu64 ", collect above %" PRIu64 "\n", p->oversize,
			p->oversize_slack, p->collect_above);
	for (unsigned i = 0; i < p->pool_count; i++)
		print_row(out, &p->pools[i]);
}

static void
print_stream(FILE *out, unsigned label)
{
	if (label == LABEL_UNKNOWN)
		fputs("s?", out);
	else
		fprintf(out, "s%u", label);
}

static void
print_back(FILE *out, const struct op *op, unsigned stream)
{
	fputs("submitted of ", out);
	print_stream(out, stream);
	fprintf(out, " %c %" PRIu64, op->back < 0 ? '+' : '-',
		(uint64_t)(op->back < 0 ? -op->back : op->back));
}

/* What follows "(stream, ". */
static void
print_rest(FILE *out, const struct op *op)
{
	switch (op->kind) {
	case OP_WAIT:
		fprintf(out, ", e%u", op->other);
		break;
	case OP_WAIT_BACK:
		fputs(", ", out);
		print_back(out, op, op->other);
		break;
	case OP_ADVANCE:
		fputs(", ", out);
		print_back(out, op, op->stream);
		break;
	case OP_ALLOC:
		fprintf(out, ", %" PRIu64, op->size);
		break;
	case OP_FREE:
		fprintf(out, ", a%u", op->other);
		if (op->size > 0)
			fprintf(out, " + %" PRIu64, op->size);
		break;
	case OP_FREE_ADDRESS:
		fprintf(out, ", 0x%" PRIx64, op->address);
		break;
	case OP_ADOPT_SEGMENT:
		fprintf(out, ", pool %u, 0x%" PRIx64 ", %" PRIu64, op->flags, op->address, op->size);
		break;
	default:
		break;
	}
}

static void
print_on_pool(FILE *out, const struct op *op)
{
	static const char *const flag_names[] = { "blocking", "non-blocking", "bad flags" };

	switch (op->kind) {
	case OP_STREAM_CREATE:
		fprintf(out, "s%u = stream_create(%s)\n", op->label,
			flag_names[op->flags < 2 ? op->flags : 2]);
		break;
	case OP_SYNCHRONIZE_ALL:
		fputs("synchronize_all()\n", out);
		break;
	case OP_TRIM:
		fprintf(out, "trim_to(%" PRIu64 ")\n", op->size);
		break;
	case OP_THRESHOLD:
		fprintf(out, "set_release_threshold(%" PRIu64 ")\n", op->size);
		break;
	case OP_ADOPT_BLOCK:
		fprintf(out, "a%u = adopt_block(0x%" PRIx64 ", size %" PRIu64 ", capacity %" PRIu64 ")\n",
			op->label, op->address, op->size, op->capacity);
		break;
	case OP_RELEASE_SEGMENT:
		fprintf(out, "release_segment(0x%" PRIx64 ")\n", op->address);
		break;
	default:
		fputs("reset_peaks()\n", out);
		break;
	}
}

void
op_print(FILE *out, const struct op *op)
{
	static const char *const names[] = {
		[OP_ALLOC] = "alloc",
		[OP_FREE] = "free",
		[OP_FREE_ADDRESS] = "free",
		[OP_STREAM_DESTROY] = "stream_destroy",
		[OP_RECORD] = "record_event",
		[OP_WAIT] = "wait_event",
		[OP_WAIT_BACK] = "wait_event",
		[OP_ADVANCE] = "advance",
		[OP_SYNCHRONIZE] = "synchronize",
		[OP_ADOPT_SEGMENT] = "adopt_segment",
		[OP_RELEASE_SEGMENT] = NULL,
	};

	if (names[op->kind] == NULL) {
		print_on_pool(out, op);
		return;
	}
	if (op->kind == OP_ALLOC || op->kind == OP_RECORD)
		fprintf(out, "%c%u = ", op->kind == OP_ALLOC ? 'a' : 'e', op->label);
	fprintf(out, "%s(", names[op->kind]);
	print_stream(out, op->stream);
	print_rest(out, op);
	fputs(")\n", out);
}

void
sequence_print(FILE *out, const struct sequence *sequence)
{
	const struct soma_model_limits *l = &sequence->limits;

	print_policy(out, &sequence->policy);
	fprintf(out, "limits: max_pool_size %" PRIu64 ", release_threshold %" PRIu64 ", base 0x%" PRIx64,
		l->max_pool_size, l->release_threshold, l->base);
	if (sequence->refuse_every > 0)
		fprintf(out, ", a source that refuses every %uth segment", sequence->refuse_every);
	fputs("\n", out);
	for (size_t i = 0; i < sequence->count; i++) {
		fprintf(out, "%4zu  ", i + 1);
		op_print(out, &sequence->ops[i]);
	}
}
