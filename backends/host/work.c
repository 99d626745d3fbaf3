/* SPDX-License-Identifier: Apache-2.0 */
/* What queued operations do to memory. Called with the lane's turn held, or at once for
 * operations without a stream.  No state. */
#include "backends/host/lanes.h"

#include <string.h>

static void *
at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

void
work_fill8(uint64_t to, uint8_t value, uint64_t bytes)
{
	memset(at(to), value, bytes);
}

void
work_fill32(uint64_t to, uint32_t value, uint64_t count)
{
	uint32_t *word = at(to);

	for (uint64_t i = 0; i < count; i++)
		word[i] = value;
}

/* ---- scans -------------------------------------------------------------------- */

/* A range may be anywhere in memory that somebody is writing wrongly at this moment, so it
 * is read word by word and never trusted to be the same twice. */
static void
scan_byte(struct soma_backend_scan *range, const unsigned char *pattern, uint64_t offset)
{
	uint64_t address = range->ptr + offset;

	if (*(const volatile unsigned char *)at(address) == pattern[address & 3])
		return;
	if (range->bad_count++ == 0)
		range->first_bad = offset;
}

static void
scan_range(struct soma_backend_scan *range)
{
	unsigned char pattern[8];
	uint64_t word, offset = 0;

	memcpy(pattern, &range->pattern, 4);
	memcpy(pattern + 4, &range->pattern, 4);
	memcpy(&word, pattern, 8);
	range->first_bad = SOMA_BACKEND_SCAN_CLEAN;
	range->bad_count = 0;
	for (; offset < range->bytes && ((range->ptr + offset) & 7) != 0; offset++)
		scan_byte(range, pattern, offset);
	for (; offset + 8 <= range->bytes; offset += 8)
		if (*(const uint64_t *)at(range->ptr + offset) != word)
			for (unsigned i = 0; i < 8; i++)
				scan_byte(range, pattern, offset + i);
	for (; offset < range->bytes; offset++)
		scan_byte(range, pattern, offset);
}

void
work_scan(struct soma_backend_scan *ranges, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		scan_range(&ranges[i]);
}

void
work_run(struct op *op)
{
	switch (op->item.kind) {
	case ITEM_FILL8:
		work_fill8(op->to, (uint8_t)op->from, op->bytes);
		break;
	case ITEM_FILL32:
		work_fill32(op->to, (uint32_t)op->from, op->bytes);
		break;
	case ITEM_COPY:
		memmove(at(op->to), at(op->from), op->bytes);
		break;
	case ITEM_SCAN:
		work_scan(at(op->to), op->bytes);
		break;
	default: /* a record or a wait: its place in the queue is all of it */
		break;
	}
}
