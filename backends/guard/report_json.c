/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report for programs: one object, one line.  Addresses are strings, "0x..", since
 * many readers keep numbers as doubles.  No state, no locks.
 */
#include <inttypes.h>
#include <stdio.h>

#include "backends/guard/guard.h"
#include "backends/guard/symbols.h"

static void
add_string(struct text *text, const char *name, const char *value)
{
	text_add(text, "\"%s\":\"", name);
	for (; *value != '\0'; value++) {
		unsigned char c = (unsigned char)*value;
		if (c == '"' || c == '\\')
			text_add(text, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			text_add(text, "\\u%04x", c);
		else
			text_add(text, "%c", c);
	}
	text_add(text, "\"");
}

static void
add_access(struct soma_backend *g, struct symbols *symbols, struct text *text, const char *name,
	   const struct clock_access *access)
{
	static const char *const kinds[] = { "", "read", "write", "read-write" };
	void *const *frames;
	char line[256];

	if (access->tick == 0 && access->seq == 0)
		return;
	text_add(text, ",\"%s\":{", name);
	if (access->lane != CLOCKS_HOST)
		text_add(text, "\"stream\":%" PRIu64 ",", access->stream);
	if (access->kind != 0)
		text_add(text, "\"access\":\"%s\",", kinds[access->kind & 3]);
	text_add(text, "\"seq\":%" PRIu64 ",\"thread\":%u,\"stack\":[", access->seq, access->thread);
	uint32_t count = stacks_frames(&g->stacks, access->stack, &frames);
	size_t first = symbols_first(frames, count);
	for (size_t i = first; i < count; i++) {
		symbols_name(symbols, frames[i], line, sizeof line);
		text_add(text, "%s{\"pc\":\"%p\",", i == first ? "" : ",", frames[i]);
		add_string(text, "name", line);
		text_add(text, "}");
	}
	text_add(text, "]}");
}

static void
add_block(struct soma_backend *g, const struct report_block *block, const char *name, struct text *text)
{
	if (block->ptr == 0)
		return;
	text_add(text,
		 ",\"%s\":{\"ptr\":\"0x%" PRIx64 "\",\"size\":%" PRIu64 ",\"generation\":%" PRIu64
		 ",\"device\":%d,",
		 name, block->ptr, block->size, block->generation, g->device);
	add_string(text, "tag", block->tag);
	text_add(text, ",\"state\":\"%s\"}", report_state_text(block->state));
}

static void
add_damage(const struct report *report, struct text *text)
{
	const struct damage *damage = &report->damage;

	if (damage->count == 0)
		return;
	text_add(text,
		 ",\"damage\":{\"first\":%" PRId64 ",\"last\":%" PRId64 ",\"count\":%" PRIu64
		 ",\"expected\":%u,\"got\":%u,\"after_seq\":%" PRIu64 ",\"dump_at\":\"0x%" PRIx64
		 "\",\"dump\":\"",
		 (int64_t)(damage->first - report->block.ptr), (int64_t)(damage->last - report->block.ptr),
		 damage->count, damage->expected, damage->got, report->block.clean_seq, damage->dump_at);
	for (uint32_t i = 0; i < damage->dump_bytes; i++)
		text_add(text, "%02x", damage->dump[i]);
	text_add(text, "\"}");
}

void
report_json(struct soma_backend *g, const struct report *report, struct text *text)
{
	struct symbols *symbols = symbols_open();

	text_add(text,
		 "{\"guard\":\"soma\",\"severity\":\"%s\",\"kind\":\"%s\",\"ptr\":\"0x%" PRIx64
		 "\",\"seq\":%" PRIu64 ",",
		 report->warning ? "warning" : "error", report_kind_text(report->kind), report->ptr,
		 report->seq);
	add_string(text, "found_by", report->found_by);
	if (!report->has_block && report->generation != 0)
		text_add(text, ",\"generation\":%" PRIu64, report->generation);
	add_block(g, &report->block, "block", text);
	add_damage(report, text);
	if (report->first.tick != 0)
		add_access(g, symbols, text, "first", &report->first);
	add_access(g, symbols, text, "now", &report->now);
	if (report->has_block) {
		add_access(g, symbols, text, "alloc", &report->block.alloc);
		add_access(g, symbols, text, "free", &report->block.freed);
		add_access(g, symbols, text, "last_use", &report->block.last);
	}
	add_block(g, &report->around, "around", text);
	add_block(g, &report->before, "before", text);
	add_block(g, &report->after, "after", text);
	text_add(text, "}");
	symbols_close(symbols);
}
