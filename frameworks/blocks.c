/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live blocks of a module by address: open addressing, at most half full, removal by moving back what follows.
 * One mutex, held over no call of soma's.
 */
#include "frameworks/framework.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct framework_block *table;
static size_t slots; /* a power of two, or 0 */
static size_t count;

static size_t
home(uint64_t ptr)
{
	return (size_t)((ptr >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (slots - 1);
}

/* Where the block is, or the empty slot where it would be. */
static size_t
find(uint64_t ptr)
{
	size_t i = home(ptr);

	while (table[i].ptr != 0 && table[i].ptr != ptr)
		i = (i + 1) & (slots - 1);
	return i;
}

static bool
grow(void)
{
	struct framework_block *old = table;
	size_t old_slots = slots, wider = slots == 0 ? 1024 : slots * 2;
	struct framework_block *fresh = calloc(wider, sizeof *fresh);

	if (fresh == NULL)
		return false;
	table = fresh;
	slots = wider;
	for (size_t i = 0; i < old_slots; i++)
		if (old[i].ptr != 0)
			table[find(old[i].ptr)] = old[i];
	free(old);
	return true;
}

bool
framework_blocks_add(const struct framework_block *block)
{
	bool fits;

	pthread_mutex_lock(&mutex);
	fits = count * 2 < slots || grow();
	if (fits) {
		table[find(block->ptr)] = *block;
		count++;
	}
	pthread_mutex_unlock(&mutex);
	return fits;
}

/* What follows without a gap, and whose home is not after the hole, moves into it. */
static void
close_hole(size_t hole)
{
	for (size_t i = (hole + 1) & (slots - 1); table[i].ptr != 0; i = (i + 1) & (slots - 1)) {
		size_t from_home = (i - home(table[i].ptr)) & (slots - 1);
		if (from_home < ((i - hole) & (slots - 1)))
			continue;
		table[hole] = table[i];
		hole = i;
	}
	table[hole] = (struct framework_block){ 0 };
}

bool
framework_blocks_remove(uint64_t ptr, struct framework_block *block)
{
	bool found = false;

	pthread_mutex_lock(&mutex);
	if (slots != 0) {
		size_t i = find(ptr);
		*block = table[i];
		found = table[i].ptr != 0;
		if (found) {
			close_hole(i);
			count--;
		}
	}
	pthread_mutex_unlock(&mutex);
	return found;
}

static bool
use(struct framework_block *block, uint64_t stream)
{
	uint64_t *wider;

	for (uint32_t i = 0; i < block->use_count; i++)
		if (block->uses[i] == stream)
			return true;
	wider = realloc(block->uses, (block->use_count + 1) * sizeof *wider);
	if (wider == NULL)
		return false;
	wider[block->use_count++] = stream;
	block->uses = wider;
	return true;
}

bool
framework_blocks_use(uint64_t ptr, uint64_t stream)
{
	bool done = false;

	pthread_mutex_lock(&mutex);
	if (slots != 0) {
		size_t i = find(ptr);
		done = table[i].ptr != 0 && use(&table[i], stream);
	}
	pthread_mutex_unlock(&mutex);
	return done;
}

struct framework_device *
framework_blocks_device(uint64_t ptr)
{
	struct framework_device *device = NULL;

	pthread_mutex_lock(&mutex);
	if (slots != 0)
		device = table[find(ptr)].device;
	pthread_mutex_unlock(&mutex);
	return device;
}
