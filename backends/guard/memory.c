/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns in memory; see memory.h.  In memory that is reached by copies, the program's
 * work is over before anything here looks at it, and one thread at a time uses the guard's stream
 * and staging memory (probe_lock).
 */
#include "backends/guard/memory.h"

#include <string.h>
#include <wchar.h>

#include "backends/guard/guard.h"

_Static_assert(sizeof(wchar_t) == 4, "wmemset fills words of 32 bits");

#define RIGHT_LEAST 256u

static uint64_t
round_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) & ~(step - 1);
}

static uint64_t
mix(uint64_t x)
{
	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
	return x ^ (x >> 33);
}

/* Its lowest byte is at most 0xfe: the word is no byte four times, which any memset() may write. */
uint32_t
pattern_of(uint64_t generation, enum pattern_salt salt)
{
	uint64_t h = mix(generation * 4 + (uint64_t)salt);

	return 0xfff0ff00u | (uint32_t)(h & 15) << 16 | (0x81u + (uint32_t)((h >> 8) % 126));
}

static uint64_t
right_redzone(const struct guard_options *options, uint64_t size)
{
	uint64_t want = RIGHT_LEAST;

	while (want < size / 16 && want < options->redzone_right_max)
		want *= 2;
	return want < options->redzone_right_max ? want : options->redzone_right_max;
}

bool
layout_of(const struct guard_options *options, uint64_t size, uint64_t alignment, struct layout *layout)
{
	uint64_t step = alignment > GUARD_ALIGNMENT ? alignment : GUARD_ALIGNMENT, outer;
	uint64_t most = round_up(options->redzone_left, GUARD_ALIGNMENT);

	most = most > LEFT_ZONE_MAX ? most : LEFT_ZONE_MAX;
	layout->left = round_up(options->redzone_left, step);
	layout->zone = layout->left < most ? layout->left : most;
	if (__builtin_add_overflow(size, layout->left + right_redzone(options, size) + GUARD_ALIGNMENT - 1,
				   &outer))
		return false;
	layout->outer = outer & ~(uint64_t)(GUARD_ALIGNMENT - 1);
	return true;
}

/* ---- filling ------------------------------------------------------------------ */

/* Both aligned to 4. */
static enum soma_status
fill(struct soma_backend *g, uint64_t ptr, uint32_t pattern, uint64_t bytes,
     struct soma_backend_stream *stream)
{
	if (bytes == 0)
		return SOMA_STATUS_OK;
	if (!g->direct)
		return g->ops->fill32(g->inner, ptr, pattern, bytes / 4, stream);
	wmemset((wchar_t *)(uintptr_t)ptr, (wchar_t)pattern, bytes / 4);
	return SOMA_STATUS_OK;
}

/* The redzone begins with the word that the block ends in: those bytes of the block are
 * undefined anyway. */
enum soma_status
memory_dress(struct soma_backend *g, const struct block *block, struct soma_backend_stream *stream)
{
	uint32_t zone = pattern_of(block->generation, PATTERN_REDZONE);
	uint64_t words = block->size & ~(uint64_t)3, end = block->outer + block->outer_size;
	enum soma_status status = fill(g, block->front, zone, block->ptr - block->front, stream);

	if (status == SOMA_STATUS_OK)
		status = fill(g, block->ptr + words, zone, end - block->ptr - words, stream);
	if (status == SOMA_STATUS_OK && g->options.poison_alloc)
		status = fill(g, block->ptr, pattern_of(block->generation, PATTERN_FRESH), words, stream);
	return status;
}

enum soma_status
memory_poison(struct soma_backend *g, const struct block *block)
{
	return fill(g, block->ptr, pattern_of(block->generation, PATTERN_FREED), round_up(block->size, 4),
		    g->own);
}

/* ---- comparing ------------------------------------------------------------------- */

static uint8_t
byte_at(uint32_t pattern, uint64_t address)
{
	uint8_t bytes[4];

	memcpy(bytes, &pattern, 4);
	return bytes[address & 3];
}

/* Whether `bytes` at `at`, which is or stands for `address`, are the pattern.  It repeats
 * every 4 bytes, so it is compared with itself, 4 bytes on. */
static bool
is_clean(const uint8_t *at, uint64_t address, uint64_t bytes, uint32_t pattern)
{
	for (uint64_t i = 0; i < 4 && i < bytes; i++)
		if (at[i] != byte_at(pattern, address + i))
			return false;
	return bytes <= 4 || memcmp(at, at + 4, bytes - 4) == 0;
}

static void
dump(struct damage *damage, const uint8_t *at, uint64_t address, uint64_t bytes, uint64_t bad)
{
	uint64_t from = bad & ~(uint64_t)15;

	from = from >= address + 16 ? from - 16 : address;
	uint64_t left = address + bytes - from;
	damage->dump_at = from;
	damage->dump_bytes = left < DAMAGE_DUMP ? (uint32_t)left : DAMAGE_DUMP;
	memcpy(damage->dump, at + (from - address), damage->dump_bytes);
}

static void
find_damage(struct damage *damage, const uint8_t *at, uint64_t address, uint64_t bytes, uint32_t pattern)
{
	if (is_clean(at, address, bytes, pattern))
		return;
	for (uint64_t i = 0; i < bytes; i++) {
		uint8_t expected = byte_at(pattern, address + i), got = at[i];
		if (got == expected)
			continue;
		if (damage->count++ == 0) {
			damage->first = address + i;
			damage->expected = expected;
			damage->got = got;
			dump(damage, at, address, bytes, address + i);
		}
		damage->last = address + i;
	}
}

/*
 * Under probe_lock, around everything that has the inner backend write to the staging memory: that is in use until
 * a wait has worked, and nothing is queued for it before.
 */
static bool
wait_for_staging(struct soma_backend *g)
{
	if (g->staging_busy && g->own != NULL)
		g->staging_busy = g->ops->stream_synchronize(g->inner, g->own) != SOMA_STATUS_OK;
	return !g->staging_busy;
}

static bool
copy_to_staging(struct soma_backend *g, uint64_t ptr, uint64_t bytes)
{
	if (!wait_for_staging(g) ||
	    g->ops->copy_to_host(g->inner, g->staging, ptr, bytes, g->own) != SOMA_STATUS_OK)
		return false;
	g->staging_busy = g->own != NULL;
	return wait_for_staging(g);
}

/* False: the backend failed. */
static bool
compare_copy(struct soma_backend *g, uint64_t ptr, uint64_t bytes, uint32_t pattern, struct damage *damage)
{
	bool copied = true;

	pthread_mutex_lock(&g->probe_lock);
	while (bytes > 0 && copied) {
		uint64_t part = bytes < g->staging_size ? bytes : g->staging_size;
		copied = copy_to_staging(g, ptr, part);
		if (copied)
			find_damage(damage, g->staging, ptr, part, pattern);
		ptr += part;
		bytes -= part;
	}
	pthread_mutex_unlock(&g->probe_lock);
	return copied;
}

static bool
compare(struct soma_backend *g, uint64_t ptr, uint64_t bytes, uint32_t pattern, struct damage *damage)
{
	if (bytes == 0)
		return true;
	if (!g->direct)
		return compare_copy(g, ptr, bytes, pattern, damage);
	find_damage(damage, (const uint8_t *)(uintptr_t)ptr, ptr, bytes, pattern);
	return true;
}

/* ---- scans ----------------------------------------------------------------------- */

/* What of a block has which pattern: three ranges at most; how many. */
static size_t
add_ranges(const struct block *block, struct soma_backend_scan *ranges)
{
	uint32_t zone = pattern_of(block->generation, PATTERN_REDZONE);
	uint64_t body = block->poisoned ? round_up(block->size, 4) : block->size;
	uint64_t behind = block->ptr + body, end = block->outer + block->outer_size;
	size_t count = 0;

	if (block->poisoned)
		ranges[count++] = (struct soma_backend_scan){
			.ptr = block->ptr,
			.bytes = body,
			.pattern = pattern_of(block->generation, PATTERN_FREED),
		};
	if (behind < end)
		ranges[count++] =
			(struct soma_backend_scan){ .ptr = behind, .bytes = end - behind, .pattern = zone };
	if (block->front < block->ptr)
		ranges[count++] = (struct soma_backend_scan){
			.ptr = block->front,
			.bytes = block->ptr - block->front,
			.pattern = zone,
		};
	return count;
}

/* Under probe_lock; the ranges are in the staging memory.  False: the backend failed; some of it may be queued. */
static bool
run_scan(struct soma_backend *g, size_t count)
{
	bool queued = g->ops->scan(g->inner, g->staging, count, g->own) == SOMA_STATUS_OK;

	g->staging_busy = g->own != NULL;
	return wait_for_staging(g) && queued;
}

void
memory_sift(struct soma_backend *g, const struct block *const *blocks, uint32_t count, bool *clean)
{
	struct soma_backend_scan *ranges = g->staging;
	size_t counts[MEMORY_SIFT_MAX], at = 0;

	memset(clean, 0, count * sizeof *clean);
	if (g->direct || !(g->info.capabilities & SOMA_BACKEND_SCANS))
		return;
	pthread_mutex_lock(&g->probe_lock);
	bool ready = wait_for_staging(g);
	for (uint32_t i = 0; i < count && ready; i++) {
		counts[i] = add_ranges(blocks[i], ranges + at);
		at += counts[i];
	}
	bool told = at > 0 && run_scan(g, at);
	at = 0;
	for (uint32_t i = 0; i < count && told; i++) {
		clean[i] = true;
		for (size_t j = 0; j < counts[i]; j++, at++)
			clean[i] = clean[i] && ranges[at].first_bad == SOMA_BACKEND_SCAN_CLEAN;
	}
	pthread_mutex_unlock(&g->probe_lock);
}

enum memory_verdict
memory_check(struct soma_backend *g, const struct block *block, struct damage *damage)
{
	uint32_t zone = pattern_of(block->generation, PATTERN_REDZONE);
	uint64_t end = block->outer + block->outer_size;
	uint64_t body = block->poisoned ? round_up(block->size, 4) : block->size;

	bool clean;

	damage->count = 0;
	memory_sift(g, &block, 1, &clean);
	if (clean)
		return MEMORY_CLEAN;
	if (block->poisoned) {
		if (!compare(g, block->ptr, body, pattern_of(block->generation, PATTERN_FREED), damage))
			return MEMORY_UNKNOWN;
		if (damage->count > 0)
			return damage->first < block->ptr + block->size ? MEMORY_BODY : MEMORY_AFTER;
	}
	if (!compare(g, block->ptr + body, end - block->ptr - body, zone, damage))
		return MEMORY_UNKNOWN;
	if (damage->count > 0)
		return MEMORY_AFTER;
	if (!compare(g, block->front, block->ptr - block->front, zone, damage))
		return MEMORY_UNKNOWN;
	return damage->count > 0 ? MEMORY_BEFORE : MEMORY_CLEAN;
}

bool
memory_is_fresh(const struct soma_backend *g, const struct block *block)
{
	uint64_t words = block->size & ~(uint64_t)3;

	if (!g->direct || !g->options.poison_alloc || words == 0)
		return false;
	return is_clean((const uint8_t *)(uintptr_t)block->ptr, block->ptr, words,
			pattern_of(block->generation, PATTERN_FRESH));
}
