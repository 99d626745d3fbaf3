/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tags: names as small numbers, for the whole process, and each thread's stack of them.
 *
 * The table is static and only grows: a name is written before the hash slot that leads to it, so that
 * looking up takes no lock.  `mutex` is for adding alone.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <soma/resource.h>

#include "lib/resource/thread.h"

#define HASH_SLOTS 4096u /* a power of two, at most a quarter full */
#define STACK_DEPTH 64u

static char names[SOMA_TAG_COUNT_MAX][SOMA_TAG_NAME_MAX + 1];
static _Atomic uint16_t hash_slots[HASH_SLOTS]; /* the tag; 0: empty */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t count = SOMA_TAG_OVERFLOW + 1; /* written under mutex */

static _Thread_local struct {
	uint32_t depth; /* also what is beyond STACK_DEPTH */
	uint32_t tags[STACK_DEPTH];
} stack;

/* Where the name is cut: not within a UTF-8 character. */
static size_t
name_length(const char *name)
{
	size_t length = strnlen(name, SOMA_TAG_NAME_MAX + 1);

	if (length <= SOMA_TAG_NAME_MAX)
		return length;
	length = SOMA_TAG_NAME_MAX;
	while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
		length--;
	return length;
}

static uint32_t
hash(const char *name, size_t length)
{
	uint64_t h = 0xcbf29ce484222325;

	for (size_t i = 0; i < length; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3;
	return (uint32_t)(h ^ h >> 32);
}

/* The name's tag, or 0 with the empty slot where it would be. */
static uint32_t
look_up(const char *name, size_t length, uint32_t *slot)
{
	for (*slot = hash(name, length) % HASH_SLOTS;; *slot = (*slot + 1) % HASH_SLOTS) {
		uint32_t tag = atomic_load_explicit(&hash_slots[*slot], memory_order_acquire);
		if (tag == 0 || (memcmp(names[tag], name, length) == 0 && names[tag][length] == '\0'))
			return tag;
	}
}

static uint32_t
add(const char *name, size_t length)
{
	uint32_t slot, tag;

	pthread_mutex_lock(&mutex);
	tag = look_up(name, length, &slot);
	if (tag == 0) {
		tag = atomic_load_explicit(&count, memory_order_relaxed);
		if (tag < SOMA_TAG_COUNT_MAX) {
			memcpy(names[tag], name, length);
			atomic_store_explicit(&hash_slots[slot], (uint16_t)tag, memory_order_release);
			atomic_store_explicit(&count, tag + 1, memory_order_release);
		} else {
			tag = SOMA_TAG_OVERFLOW;
		}
	}
	pthread_mutex_unlock(&mutex);
	return tag;
}

uint32_t
soma_tag_intern(const char *name)
{
	uint32_t slot, tag;
	size_t length;

	if (name == NULL || name[0] == '\0')
		return SOMA_TAG_NONE;
	length = name_length(name);
	tag = look_up(name, length, &slot);
	return tag != 0 ? tag : add(name, length);
}

const char *
soma_tag_name(uint32_t tag)
{
	if (tag == SOMA_TAG_OVERFLOW)
		return "(other tags: too many names)";
	return tag < atomic_load_explicit(&count, memory_order_acquire) ? names[tag] : "";
}

void
soma_tag_push(uint32_t tag)
{
	if (tag >= atomic_load_explicit(&count, memory_order_acquire))
		tag = SOMA_TAG_NONE;
	if (stack.depth < STACK_DEPTH) {
		stack.tags[stack.depth] = tag;
		soma__self.tag = tag;
	}
	stack.depth++;
}

void
soma_tag_pop(void)
{
	if (stack.depth == 0)
		return;
	stack.depth--;
	if (stack.depth == 0)
		soma__self.tag = SOMA_TAG_NONE;
	else if (stack.depth <= STACK_DEPTH)
		soma__self.tag = stack.tags[stack.depth - 1];
}
