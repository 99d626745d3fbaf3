/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence as a list, and the source that gives its segments their addresses.
 */
#include "tests/sequence.h"

#include <stdlib.h>
#include <string.h>

static void *
grown(void *memory, size_t count, size_t size)
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
		sequence->ops = grown(sequence->ops, sequence->room, sizeof *sequence->ops);
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
	to->ops = grown(NULL, from->count, sizeof *to->ops);
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
