/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: filling them in, and where they go.  Emitting holds no lock. */
#include "backends/guard/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/guard/guard.h"

#define TEXT_BYTES ((size_t)24 << 10)
#define TEXT_WITHIN 1024u

const char *
report_kind_text(enum report_kind kind)
{
	static const char *const texts[] = {
#define X(name, text) text,
		REPORT_KINDS(X)
#undef X
	};
	return texts[kind];
}

const char *
report_state_text(enum block_state state)
{
	switch (state) {
	case BLOCK_LIVE:
		return "live";
	case BLOCK_RETIRED:
		return "retired";
	case BLOCK_QUARANTINED:
	case BLOCK_EVICTING:
		return "quarantined";
	case BLOCK_CONDEMNED:
		return "condemned";
	case BLOCK_TOMBSTONE:
		break;
	}
	return "freed";
}

/* ---- filling in ---------------------------------------------------------------------- */

static void
take(struct report_block *to, const struct block *from)
{
	if (from == NULL)
		return;
	to->ptr = from->ptr;
	to->size = from->size;
	to->generation = from->given_generation != 0 ? from->given_generation : from->generation;
	to->state = from->state;
	to->alloc = from->uses.alloc;
	to->freed = from->freed;
	to->last = uses_last(&from->uses);
	to->clean_seq = from->clean_seq;
	memcpy(to->tag, from->tag, sizeof to->tag);
}

void
report_about_address(struct soma_backend *g, struct report *report, uint64_t ptr)
{
	struct block_places places = blocks_near(&g->blocks, ptr);

	report->ptr = ptr;
	report->seq = g->clocks.seq;
	take(&report->before, places.before);
	take(&report->after, places.after);
	take(&report->around, places.around);
}

void
report_about(struct soma_backend *g, struct report *report, const struct block *block)
{
	report_about_address(g, report, block->ptr);
	report->has_block = true;
	take(&report->block, block);
}

void
report_about_gone(struct soma_backend *g, struct report *report, uint64_t ptr, uint64_t generation)
{
	if (ptr != 0) {
		report_about_address(g, report, ptr);
		take(&report->around, blocks_find(&g->blocks, ptr));
	}
	report->generation = generation;
	report->seq = g->clocks.seq;
}

/* ---- text ------------------------------------------------------------------------------ */

void
text_add(struct text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int n = vsnprintf(text->at + text->used, text->room - text->used, format, args);
	va_end(args);
	if (n < 0)
		return;
	text->used += (size_t)n;
	if (text->used >= text->room)
		text->used = text->room - 1;
}

static void
write_all(int fd, const struct text *text)
{
	size_t done = 0;

	while (done < text->used) {
		ssize_t n = write(fd, text->at + done, text->used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		done += (size_t)n;
	}
}

static void
deliver(struct soma_backend *g, const struct report *report, const struct text *text, const struct text *json)
{
	struct reporter *r = &g->reporter;

	pthread_mutex_lock(&r->mutex);
	void (*listener)(void *, const struct soma_backend_guard_report *) = r->listener;
	void *context = r->listener_context;
	bool written = !(r->to_listener && r->listened);
	pthread_mutex_unlock(&r->mutex);
	if (written)
		write_all(r->output, text);
	if (r->json >= 0) {
		struct text end = { .at = (char[]){ "\n" }, .used = 1, .room = 2 };
		write_all(r->json, json);
		write_all(r->json, &end);
	}
	struct soma_backend_guard_report told = { .size = sizeof told,
						  .kind = report_kind_text(report->kind),
						  .ptr = report->ptr,
						  .text = text->at,
						  .json = json->at };
	if (listener != NULL)
		listener(context, &told);
}

void
report_emit(struct soma_backend *g, const struct report *report)
{
	char text_within[TEXT_WITHIN], json_within[TEXT_WITHIN];
	struct text text = { .at = text_within, .room = sizeof text_within };
	struct text json = { .at = json_within, .room = sizeof json_within };

	if (atomic_fetch_add(&g->reporter.count, 1) >= g->reporter.limit) {
		atomic_fetch_add(&g->reporter.suppressed, 1);
		return;
	}
	char *room = g->host->alloc(g->host->context, 2 * TEXT_BYTES, 0);
	if (room != NULL) {
		text = (struct text){ .at = room, .room = TEXT_BYTES };
		json = (struct text){ .at = room + TEXT_BYTES, .room = TEXT_BYTES };
	}
	text.at[0] = json.at[0] = '\0';
	report_text(g, report, &text);
	report_json(g, report, &json);
	deliver(g, report, &text, &json);
	if (room != NULL)
		g->host->free(g->host->context, room, 2 * TEXT_BYTES);
	if (g->reporter.aborts && !report->warning && report->kind != REPORT_LEAK)
		abort();
}

/* ---- where to ---------------------------------------------------------------------------- */

static enum soma_status
open_file(struct soma_backend *g, const char *key, const char *path, int *fd)
{
	int made = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);

	if (made < 0)
		return guard_fail(g->host, SOMA_STATUS_IO, "guard.%s: \"%.256s\" cannot be opened: %s", key,
				  path, strerror(errno));
	*fd = made;
	return SOMA_STATUS_OK;
}

enum soma_status
reporter_open(struct soma_backend *g)
{
	struct reporter *r = &g->reporter;
	enum soma_status status = SOMA_STATUS_OK;

	r->output = STDERR_FILENO;
	r->json = -1;
	r->limit = g->options.report_limit;
	r->to_listener = g->options.on_error == GUARD_CALLBACK;
	r->aborts = g->options.on_error == GUARD_ABORT;
	if (pthread_mutex_init(&r->mutex, NULL) != 0)
		return guard_fail(g->host, SOMA_STATUS_OUT_OF_HOST_MEMORY, "guard: no memory for a lock");
	if (g->options.output[0] != '\0')
		status = open_file(g, "output", g->options.output, &r->output);
	if (status == SOMA_STATUS_OK && g->options.json[0] != '\0')
		status = open_file(g, "json", g->options.json, &r->json);
	return status;
}

void
reporter_close(struct soma_backend *g)
{
	if (g->reporter.output > STDERR_FILENO)
		close(g->reporter.output);
	if (g->reporter.json > STDERR_FILENO)
		close(g->reporter.json);
	pthread_mutex_destroy(&g->reporter.mutex);
}
