/* SPDX-License-Identifier: Apache-2.0 */
/* A report for people.  No state, no locks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/guard/guard.h"
#include "backends/guard/symbols.h"

static const char *
access_text(uint32_t kind)
{
	switch (kind) {
	case SOMA_BACKEND_ACCESS_READ:
		return "read";
	case SOMA_BACKEND_ACCESS_WRITE:
		return "write";
	case SOMA_BACKEND_ACCESS_READ_WRITE:
		return "read-write";
	}
	return "";
}

static void
add_stream(struct text *text, const struct clock_access *access)
{
	if (access->lane == CLOCKS_HOST)
		text_add(text, "the host");
	else
		text_add(text, "stream %" PRIu64, access->stream);
}

static void
add_access(struct soma_backend *g, struct symbols *symbols, struct text *text, const char *name,
	   const struct clock_access *access)
{
	void *const *frames;
	char line[256];

	if (access->tick == 0 && access->seq == 0)
		return;
	text_add(text, " %s: ", name);
	add_stream(text, access);
	if (access->kind != 0)
		text_add(text, " %s", access_text(access->kind));
	text_add(text, " seq %" PRIu64 " tid %u\n", access->seq, access->thread);
	uint32_t count = stacks_frames(&g->stacks, access->stack, &frames);
	size_t first = symbols_first(frames, count);
	for (size_t i = first; i < count; i++) {
		symbols_name(symbols, frames[i], line, sizeof line);
		text_add(text, "    #%zu %s\n", i - first, line);
	}
}

/* Without a record of a block. */
static void
add_stranger(struct soma_backend *g, const struct report *report, struct text *text)
{
	if (report->ptr != 0)
		text_add(text, "  address 0x%" PRIx64, report->ptr);
	if (report->generation != 0)
		text_add(text, "  gen %" PRIu64, report->generation);
	text_add(text, "  dev %d: ", g->device);
	if (report->generation != 0)
		text_add(text, "freed before; no more is known of that block\n");
	else
		text_add(text, report->ptr != 0 ? "no block begins there\n" : "it never was a block\n");
}

static void
add_head(struct soma_backend *g, const struct report *report, struct text *text)
{
	const struct report_block *block = &report->block;

	text_add(text, "soma-guard: %s %s", report->warning ? "WARNING" : "ERROR",
		 report_kind_text(report->kind));
	if (!report->has_block) {
		add_stranger(g, report, text);
		return;
	}
	text_add(text, "  block 0x%" PRIx64 " size %" PRIu64 " gen %" PRIu64, block->ptr, block->size,
		 block->generation);
	if (block->tag[0] != '\0')
		text_add(text, " tag \"%s\"", block->tag);
	text_add(text, " dev %d state %s\n", g->device, report_state_text(block->state));
	if (report->kind == REPORT_WRONG_SIZE)
		text_add(text, " freed as %" PRIu64 " bytes, allocated as %" PRIu64 "\n", report->given_size,
			 block->size);
}

static void
add_dump(struct text *text, const struct damage *damage)
{
	for (uint32_t i = 0; i < damage->dump_bytes; i += 16) {
		text_add(text, "  0x%" PRIx64 ":", damage->dump_at + i);
		for (uint32_t j = i; j < i + 16 && j < damage->dump_bytes; j++) {
			uint64_t at = damage->dump_at + j;
			text_add(text, at == damage->first ? "[%02x]" : " %02x", damage->dump[j]);
		}
		text_add(text, "\n");
	}
}

static void
add_damage(const struct report *report, struct text *text)
{
	const struct damage *damage = &report->damage;
	const struct report_block *block = &report->block;
	int64_t first = (int64_t)(damage->first - block->ptr), last = (int64_t)(damage->last - block->ptr);

	if (damage->count == 0)
		return;
	text_add(text, " first bad byte: offset %+" PRId64, first);
	if (report->kind == REPORT_OOB_AFTER)
		text_add(text, " (%" PRId64 " past end)", first - (int64_t)block->size);
	else if (report->kind == REPORT_OOB_BEFORE)
		text_add(text, " (%" PRId64 " before start)", -first);
	text_add(text, " expected %02x got %02x; %" PRIu64 " bad bytes, span [%+" PRId64 ",%+" PRId64 "]\n",
		 damage->expected, damage->got, damage->count, first, last);
	add_dump(text, damage);
}

static void
add_race(const struct report *report, struct text *text)
{
	if (report->first.tick == 0 || report->kind == REPORT_UNINITIALISED_READ)
		return;
	text_add(text, " missing: ");
	add_stream(text, &report->now);
	text_add(text, " never waited for ");
	add_stream(text, &report->first);
	text_add(text, " at or after %" PRIu64 "\n", report->first.seq);
}

static void
add_neighbours(const struct report *report, struct text *text)
{
	if (report->around.ptr != 0)
		text_add(text,
			 " it is at offset %+" PRId64 " of block 0x%" PRIx64 " size %" PRIu64 " gen %" PRIu64
			 " state %s\n",
			 (int64_t)(report->ptr - report->around.ptr), report->around.ptr, report->around.size,
			 report->around.generation, report_state_text(report->around.state));
	if (report->before.ptr == 0 && report->after.ptr == 0)
		return;
	text_add(text, " neighbours:");
	if (report->before.ptr != 0)
		text_add(text, " prev 0x%" PRIx64 " gen %" PRIu64, report->before.ptr,
			 report->before.generation);
	if (report->after.ptr != 0)
		text_add(text, "%s next 0x%" PRIx64 " gen %" PRIu64, report->before.ptr != 0 ? " /" : "",
			 report->after.ptr, report->after.generation);
	text_add(text, "\n");
}

void
report_text(struct soma_backend *g, const struct report *report, struct text *text)
{
	struct symbols *symbols = symbols_open();

	add_head(g, report, text);
	add_damage(report, text);
	if (report->first.tick != 0 && !report->first_is_alloc)
		add_access(g, symbols, text, "first", &report->first);
	if (report->now.seq != 0)
		add_access(g, symbols, text, report->first.tick != 0 ? "second" : "now", &report->now);
	add_race(report, text);
	if (report->has_block) {
		add_access(g, symbols, text, "alloc", &report->block.alloc);
		if (report->block.freed.seq != report->now.seq)
			add_access(g, symbols, text, "free", &report->block.freed);
		if (report->block.last.seq != report->first.seq)
			add_access(g, symbols, text, "last use", &report->block.last);
	}
	add_neighbours(report, text);
	text_add(text, " found by: %s", report->found_by);
	if (report->damage.count != 0)
		text_add(text, "; written between the last clean scan (seq %" PRIu64 ") and seq %" PRIu64,
			 report->block.clean_seq, report->seq);
	text_add(text, "\n");
	symbols_close(symbols);
}
