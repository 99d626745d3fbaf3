/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a block: 24 bytes.  Addresses and sizes are granules.
 */
#ifndef SOMA_LIB_MODEL_BLOCK_H
#define SOMA_LIB_MODEL_BLOCK_H

#include <stdint.h>

/* The few functions that every allocation and free goes through are one piece of code
 * in each of their callers: a call and what it spills costs more than they do. */
#define HOT inline __attribute__((always_inline))

#define SOMA__ADDRESS_BITS 40 /* granules of 256 bytes below SOMA_MODEL_ADDRESS_MAX */
#define SOMA__SEGMENT_BITS 22

enum soma__block_kind {
	SOMA__BLOCK_LIVE, /* or freed, and waiting in the queue; or of no account */
	SOMA__BLOCK_FREE, /* it has a node */
	SOMA__BLOCK_HOLE, /* a released part of a range */
};

struct soma__block {
	uint64_t head;           /* address 40 | segment 22 | kind 2 */
	uint32_t previous, next; /* in address order, 0 at the segment's ends */
	union {
		uint32_t waste; /* LIVE: capacity - requested, bytes */
		uint32_t node;  /* FREE */
	};
	uint32_t size; /* LIVE, FREE: granules, so that the next block need not be read; or all ones */
};

static inline uint64_t
soma__block_address(const struct soma__block *block)
{
	return block->head & (((uint64_t)1 << SOMA__ADDRESS_BITS) - 1);
}

static inline uint32_t
soma__block_segment(const struct soma__block *block)
{
	return (uint32_t)(block->head >> SOMA__ADDRESS_BITS) & (((uint32_t)1 << SOMA__SEGMENT_BITS) - 1);
}

static inline void
soma__block_set_size(struct soma__block *block, uint64_t granules)
{
	block->size = granules < UINT32_MAX ? (uint32_t)granules : UINT32_MAX;
}

static inline enum soma__block_kind
soma__block_kind(const struct soma__block *block)
{
	return (enum soma__block_kind)(block->head >> (SOMA__ADDRESS_BITS + SOMA__SEGMENT_BITS));
}

static inline uint64_t
soma__block_head(uint64_t address, uint32_t segment, enum soma__block_kind kind)
{
	return address | (uint64_t)segment << SOMA__ADDRESS_BITS |
	       (uint64_t)kind << (SOMA__ADDRESS_BITS + SOMA__SEGMENT_BITS);
}

static inline void
soma__block_set_kind(struct soma__block *block, enum soma__block_kind kind)
{
	const uint64_t mask = ((uint64_t)1 << (SOMA__ADDRESS_BITS + SOMA__SEGMENT_BITS)) - 1;

	block->head = (block->head & mask) | (uint64_t)kind << (SOMA__ADDRESS_BITS + SOMA__SEGMENT_BITS);
}

#endif
