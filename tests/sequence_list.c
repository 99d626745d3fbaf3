/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence as a list, and the source that gives its segments their addresses.
 */
#include "tests/sequence_state.h"

#include <stdlib.h>
#include <string.h>

void *
sequence_grown(void *memory, size_t count, size_t size)
{
	memory = realloc(memory, (count + 1) * size);
	if (memory == NULL)
		abort();
	return memory;
}

void
sequence_append(struct sequence *sequence, struct op op)
{
	if (sequence->count == sequence->room) {
		sequence->room = 2 * sequence->room + 64;
		sequence->ops = sequence_grown(sequence->ops, sequence->room, sizeof *sequence->ops);
	}
	sequence->ops[sequence->count++] = op;
	if (op.label >= sequence->labels)
		sequence->labels = op.label + 1;
}

void
sequence_copy(struct sequence *to, const struct sequence *from)
{
	*to = *from;
	to->room = from->count;
	to->ops = sequence_grown(NULL, from->count, sizeof *to->ops);
	if (from->count > 0)
		memcpy(to->ops, from->ops, from->count * sizeof *to->ops);
}

void
sequence_free(struct sequence *sequence)
{
	free(sequence->ops);
	*sequence = (struct sequence){ 0 };
}

static void
mix(uint64_t *digest, uint64_t value)
{
	for (unsigned i = 0; i < 8; i++) {
		*digest ^= (value >> (8 * i)) & 0xff;
		*digest *= 0x100000001b3;
	}
}

enum soma_status
source_acquire(void *context, uint64_t stream, uint64_t size, uint64_t *address)
{
	struct source *source = context;
	unsigned region = source->calls % 3 == 1;

	mix(&source->digest, stream);
	mix(&source->digest, size);
	if (++source->calls % source->refuse_every == 0 || size > SOURCE_LARGEST)
		return source->calls % 2 ? SOMA_STATUS_DRIVER : SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	if (size == source->returned_size) {
		*address = source->returned_address;
		source->returned_size = 0;
		return SOMA_STATUS_OK;
	}
	*address = source->next[region];
	source->next[region] += size + (source->calls % 4) * source->alignment;
	return SOMA_STATUS_OK;
}

void
source_release(void *context, uint64_t address, uint64_t size)
{
	struct source *source = context;

	mix(&source->digest, address);
	mix(&source->digest, size);
	if (address >= SOURCE_END) /* adopted, not from here */
		return;
	source->returned_address = address;
	source->returned_size = size;
}

/* ---- mapped pages ---- */

/* The ranges lie apart, and not in the order of pools. */
enum soma_status
source_reserve(void *context, unsigned pool, uint64_t size, uint64_t *address)
{
	struct source *source = context;

	mix(&source->digest, pool);
	mix(&source->digest, size);
	*address = (uint64_t)(source->alignment % 1024 == 0 ? 2 - pool : 1 + pool) << 46;
	return SOMA_STATUS_OK;
}

uint64_t
source_mapped(const struct source *source, uint64_t address, uint64_t size)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < source->part_count; i++) {
		uint64_t begin = source->parts[i].begin, end = source->parts[i].end;

		begin = begin > address ? begin : address;
		end = end < address + size ? end : address + size;
		sum += end > begin ? end - begin : 0;
	}
	return sum;
}

static void
add_part(struct source *source, uint64_t begin, uint64_t end)
{
	if (begin >= end)
		return;
	source->parts = sequence_grown(source->parts, source->part_count, sizeof *source->parts);
	source->parts[source->part_count++] = (struct source_part){ begin, end };
}

enum soma_status
source_map(void *context, uint64_t address, uint64_t size)
{
	struct source *source = context;

	mix(&source->digest, address);
	mix(&source->digest, size);
	source->broken |= source_mapped(source, address, size) != 0;
	if (++source->calls % source->refuse_every == 0 || size > SOURCE_LARGEST)
		return source->calls % 2 ? SOMA_STATUS_DRIVER : SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
	add_part(source, address, address + size);
	return SOMA_STATUS_OK;
}

void
source_unmap(void *context, uint64_t address, uint64_t size)
{
	struct source *source = context;
	size_t count = source->part_count;

	mix(&source->digest, ~address);
	mix(&source->digest, size);
	source->broken |= source_mapped(source, address, size) != size;
	for (size_t i = 0; i < count; i++) {
		struct source_part part = source->parts[i];

		if (part.begin >= address + size || part.end <= address)
			continue;
		source->parts[i].end = source->parts[i].begin; /* empty; what stays is added */
		add_part(source, part.begin, address < part.end ? address : part.end);
		add_part(source, part.begin > address + size ? part.begin : address + size, part.end);
	}
	for (size_t i = 0; i < source->part_count;)
		if (source->parts[i].begin >= source->parts[i].end)
			source->parts[i] = source->parts[--source->part_count];
		else
			i++;
}

void
source_init(struct source *source, const struct sequence *sequence)
{
	*source = (struct source){
		.refuse_every = sequence->refuse_every,
		.alignment = sequence->policy.alignment,
		.next = { (uint64_t)1 << 45, (uint64_t)1 << 43 },
		.digest = 0xcbf29ce484222325,
	};
}
