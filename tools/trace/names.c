/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intern table: texts in chunks that never move, an array by number, and a hash
 * table of numbers.  Texts are never removed.
 */
#include "config.h" /* first: getentropy */

#include "tools/trace/names.h"

#include <string.h>
#include <unistd.h>

#include "tools/trace/memory.h"

#define CHUNK_SIZE (16 * 1024 - 64)

struct trace_names_chunk {
	struct trace_names_chunk *next;
	size_t used, size;
	char text[];
};

/* Both halves of the product of 128 bits: unlike the lower one alone, it lets nobody
 * who does not know the seed choose two texts that collide. */
static uint64_t
mix(uint64_t a, uint64_t b)
{
	uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), high = (a >> 32) * (b >> 32);
	uint64_t cross = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
	uint64_t other = (a & UINT32_MAX) * (b >> 32) + (cross & UINT32_MAX);

	return (high + (cross >> 32) + (other >> 32)) ^ (other << 32 | (low & UINT32_MAX));
}

static uint32_t
hash_text(uint64_t seed, const char *text, size_t length)
{
	uint64_t hash = seed ^ length, word;
	size_t left = length;

	for (; left >= 8; left -= 8, text += 8) {
		memcpy(&word, text, 8);
		hash = mix(hash ^ word, 0x9e3779b97f4a7c15u);
	}
	word = 0;
	memcpy(&word, text, left);
	hash = mix(hash ^ word, 0xa0761d6478bd642fu);
	return (uint32_t)(hash ^ hash >> 32);
}

bool
trace_names_init(struct trace_names *names)
{
	memset(names, 0, sizeof *names);
	if (getentropy(&names->seed, sizeof names->seed) != 0)
		names->seed = 0x2545f4914f6cdd1du;
	names->slot_count = 256;
	names->slot = trace_zeroed(names->slot_count * sizeof *names->slot);
	if (names->slot == NULL ||
	    !trace_reserve((void **)&names->text, &names->capacity, 64, sizeof *names->text)) {
		trace_names_fini(names);
		return false;
	}
	names->text[0] = (struct trace_text){ .text = "" };
	names->count = 1;
	return true;
}

void
trace_names_fini(struct trace_names *names)
{
	struct trace_names_chunk *chunk;

	while ((chunk = names->chunk) != NULL) {
		names->chunk = chunk->next;
		trace_release(chunk);
	}
	trace_release(names->text);
	trace_release(names->slot);
	memset(names, 0, sizeof *names);
}

static char *
copy_text(struct trace_names *names, const char *text, size_t length)
{
	struct trace_names_chunk *chunk = names->chunk;
	char *copy;

	if (chunk == NULL || chunk->size - chunk->used <= length) {
		size_t size = length < CHUNK_SIZE / 4 ? CHUNK_SIZE : length + 1;
		chunk = trace_resize(NULL, sizeof *chunk + size);
		if (chunk == NULL)
			return NULL;
		chunk->next = names->chunk;
		chunk->used = 0;
		chunk->size = size;
		names->chunk = chunk;
	}
	copy = chunk->text + chunk->used;
	memcpy(copy, text, length);
	copy[length] = '\0';
	chunk->used += length + 1;
	return copy;
}

static bool
grow_slots(struct trace_names *names)
{
	size_t count = names->slot_count * 2;
	uint32_t *slot = trace_zeroed(count * sizeof *slot);

	if (slot == NULL)
		return false;
	for (size_t i = 1; i < names->count; i++) {
		size_t at = names->text[i].hash & (count - 1);
		while (slot[at] != 0)
			at = (at + 1) & (count - 1);
		slot[at] = (uint32_t)i;
	}
	trace_release(names->slot);
	names->slot = slot;
	names->slot_count = count;
	return true;
}

static bool
append_text(struct trace_names *names, struct trace_text entry, size_t at, trace_name *name)
{
	if (names->count >= UINT32_MAX || entry.length == UINT32_MAX ||
	    !trace_reserve((void **)&names->text, &names->capacity, names->count + 1, sizeof *names->text))
		return false;
	entry.text = copy_text(names, entry.text, entry.length);
	if (entry.text == NULL)
		return false;
	names->text[names->count] = entry;
	names->slot[at] = (uint32_t)names->count;
	*name = (trace_name)names->count++;
	return true;
}

bool
trace_names_add(struct trace_names *names, const char *text, size_t length, trace_name *name)
{
	struct trace_text entry = { .text = text, .length = (uint32_t)length };
	size_t at;

	if (length == 0) {
		*name = 0;
		return true;
	}
	if (length >= UINT32_MAX || (names->count * 2 >= names->slot_count && !grow_slots(names)))
		return false;
	entry.hash = hash_text(names->seed, text, length);
	at = entry.hash & (names->slot_count - 1);
	for (; names->slot[at] != 0; at = (at + 1) & (names->slot_count - 1)) {
		const struct trace_text *known = &names->text[names->slot[at]];
		if (known->hash == entry.hash && known->length == entry.length &&
		    memcmp(known->text, text, length) == 0) {
			*name = names->slot[at];
			return true;
		}
	}
	return append_text(names, entry, at, name);
}
