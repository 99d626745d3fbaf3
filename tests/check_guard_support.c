/* SPDX-License-Identifier: Apache-2.0 */
/* See check_guard_support.h. */
#include "tests/check_guard_support.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check_guard_toy.h"

#define OPTIONS_MAX 24

extern const struct soma_backend_module soma_backend_module; /* the guard's */

_Atomic int64_t table_live, table_fail_in = -1;

/* ---- the host table -------------------------------------------------------------------- */

static void
table_log(void *context, enum soma_backend_log_level level, const char *text)
{
	(void)context;
	(void)level;
	(void)text;
}

static enum soma_status
table_fail(void *context, const struct soma_backend_error *error)
{
	struct fixture *f = context;

	snprintf(f->error, sizeof f->error, "%s", error->text);
	return error->status;
}

static void *
table_alloc(void *context, size_t size, size_t alignment)
{
	void *memory = NULL;

	(void)context;
	if (atomic_load(&table_fail_in) >= 0 && atomic_fetch_sub(&table_fail_in, 1) == 0)
		return NULL;
	if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, size) != 0)
		return NULL;
	memset(memory, 0xa5, size);
	atomic_fetch_add(&table_live, (int64_t)size);
	return memory;
}

static void
table_free(void *context, void *memory, size_t size)
{
	(void)context;
	if (memory == NULL)
		return;
	atomic_fetch_sub(&table_live, (int64_t)size);
	free(memory);
}

/* The inner backend's records: what it leaves goes with the fixture, as with an arena. */
struct record {
	struct record *next, *prev;
	void *base;
};

static void *
inner_alloc(void *context, size_t size, size_t alignment)
{
	struct fixture *f = context;
	size_t front = alignment < 64 ? 64 : alignment;
	char *base;

	if (posix_memalign((void **)&base, front, front + size) != 0)
		return NULL;
	struct record *record = (struct record *)(void *)(base + front) - 1;
	pthread_mutex_lock(&f->mutex);
	*record = (struct record){ f->records, NULL, base };
	if (f->records != NULL)
		f->records->prev = record;
	f->records = record;
	pthread_mutex_unlock(&f->mutex);
	return base + front;
}

static void
inner_free(void *context, void *memory, size_t size)
{
	struct fixture *f = context;
	struct record *record = (struct record *)memory - 1;

	(void)size;
	if (memory == NULL)
		return;
	pthread_mutex_lock(&f->mutex);
	if (record->prev != NULL)
		record->prev->next = record->next;
	else
		f->records = record->next;
	if (record->next != NULL)
		record->next->prev = record->prev;
	pthread_mutex_unlock(&f->mutex);
	free(record->base);
}

static void
close_inner(struct fixture *f)
{
	f->inner_ops->close(f->inner.self);
	while (f->records != NULL) {
		struct record *record = f->records;
		f->records = record->next;
		free(record->base);
	}
	pthread_mutex_destroy(&f->mutex);
}

static enum soma_status
table_parse_size(void *context, const char *text, uint64_t *bytes)
{
	struct soma_backend_error error = { .size = sizeof error,
					    .status = SOMA_STATUS_INVALID_VALUE,
					    .text = "no size" };
	char *end;

	*bytes = strtoull(text, &end, 10);
	if (end == text)
		return table_fail(context, &error);
	if (*end == 'K')
		*bytes <<= 10;
	else if (*end == 'M')
		*bytes <<= 20;
	else if (*end != '\0')
		return table_fail(context, &error);
	return SOMA_STATUS_OK;
}

static void
table_released(void *context, uint64_t ptr, uint64_t size)
{
	struct fixture *f = context;

	(void)ptr;
	(void)size;
	atomic_fetch_add(&f->released_count, 1);
}

static void
table_listener(void *context, const struct soma_backend_guard_report *report)
{
	struct fixture *f = context;
	unsigned at = atomic_fetch_add(&f->report_count, 1);

	if (at >= REPORTS_MAX)
		return;
	snprintf(f->reports[at].kind, sizeof f->reports[at].kind, "%s", report->kind);
	f->reports[at].ptr = report->ptr;
	f->reports[at].text = strdup(report->text);
	f->reports[at].json = strdup(report->json);
}

/* ---- opening ----------------------------------------------------------------------------- */

static const struct soma_backend_ops *
find_inner(enum inner_kind kind)
{
	if (kind != INNER_HOST)
		return &toy_ops;
	void *handle = dlopen(HOST_MODULE, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(handle != NULL, "%s", dlerror());
	const struct soma_backend_module *module = dlsym(handle, SOMA_BACKEND_SYMBOL);
	ck_assert_ptr_nonnull(module);
	return module->ops;
}

static void
open_inner(struct fixture *f)
{
	struct soma_backend_open how = { .size = sizeof how,
					 .host = &f->inner_host,
					 .device = f->kind == INNER_COPIES };

	f->inner_ops = find_inner(f->kind);
	f->inner =
		(struct soma_backend_inner){ .size = sizeof f->inner, .name = "inner", .ops = f->inner_ops };
	ck_assert_int_eq(f->inner_ops->open(&how, &f->inner.self), SOMA_STATUS_OK);
	f->inner.capabilities = UINT64_MAX;
}

static size_t
read_options(const char *const *options, struct soma_backend_option *out)
{
	size_t count = 0;
	bool on_error = false, race = false;

	for (; options != NULL && options[0] != NULL; options += 2) {
		out[count++] = (struct soma_backend_option){ options[0], options[1] };
		on_error |= strcmp(options[0], "on_error") == 0;
		race |= strcmp(options[0], "race") == 0;
	}
	if (!race)
		out[count++] = (struct soma_backend_option){ "race", "strict" };
	if (!on_error)
		out[count++] = (struct soma_backend_option){ "on_error", "callback" };
	return count;
}

bool
fixture_try(struct fixture *f, enum inner_kind kind, const char *const *options)
{
	struct soma_backend_option list[OPTIONS_MAX];
	struct soma_backend_host host = {
		.size = sizeof host,
		.context = f,
		.log = table_log,
		.fail = table_fail,
		.alloc = table_alloc,
		.free = table_free,
		.parse_size = table_parse_size,
	};

	memset(f, 0, sizeof *f);
	pthread_mutex_init(&f->mutex, NULL);
	f->kind = kind;
	f->host = f->inner_host = host;
	f->inner_host.alloc = inner_alloc;
	f->inner_host.free = inner_free;
	int64_t toy_fail = atomic_exchange(&toy_fail_in, -1);
	open_inner(f);
	atomic_store(&toy_fail_in, toy_fail);
	f->host.inner = &f->inner;
	f->host.released = table_released;
	f->ops = soma_backend_module.ops;
	struct soma_backend_open how = { .size = sizeof how, .host = &f->host, .options = list };
	how.option_count = read_options(options, list);
	if (f->ops->open(&how, &f->g) != SOMA_STATUS_OK) {
		close_inner(f);
		return false;
	}
	f->ops->guard_listen(f->g, table_listener, f);
	return true;
}

void
fixture_open(struct fixture *f, enum inner_kind kind, const char *const *options)
{
	bool opened = fixture_try(f, kind, options);

	ck_assert_msg(opened, "%s", f->error);
}

void
fixture_forget_reports(struct fixture *f)
{
	for (unsigned i = 0; i < f->report_count && i < REPORTS_MAX; i++) {
		free(f->reports[i].text);
		free(f->reports[i].json);
	}
	f->report_count = 0;
}

void
fixture_close(struct fixture *f)
{
	f->ops->close(f->g);
	close_inner(f);
	ck_assert_int_eq(atomic_load(&table_live), 0);
	ck_assert_int_eq(atomic_load(&toy_live), 0);
}

/* ---- shorthands --------------------------------------------------------------------------- */

struct soma_backend_stream *
make_stream(struct fixture *f, unsigned flags)
{
	struct soma_backend_stream *stream;

	ck_assert_int_eq(f->ops->stream_create(f->g, flags, &stream), SOMA_STATUS_OK);
	return stream;
}

struct soma_backend_stream *
legacy_stream(struct fixture *f)
{
	struct soma_backend_stream *stream;

	ck_assert_int_eq(f->ops->stream_default(f->g, SOMA_BACKEND_STREAM_LEGACY, &stream), SOMA_STATUS_OK);
	return stream;
}

struct soma_backend_event *
make_event(struct fixture *f)
{
	struct soma_backend_event *event;

	ck_assert_int_eq(f->ops->event_create(f->g, 0, &event), SOMA_STATUS_OK);
	return event;
}

unsigned char *
take(struct fixture *f, uint64_t size, struct soma_backend_stream *stream)
{
	uint64_t ptr;

	ck_assert_int_eq(f->ops->alloc(f->g, size, 0, stream, &ptr), SOMA_STATUS_OK);
	return (unsigned char *)(uintptr_t)ptr;
}

void
give(struct fixture *f, void *ptr, uint64_t size, struct soma_backend_stream *stream)
{
	ck_assert_int_eq(f->ops->free(f->g, (uint64_t)(uintptr_t)ptr, size, stream), SOMA_STATUS_OK);
}

void
order(struct fixture *f, struct soma_backend_stream *from, struct soma_backend_stream *to)
{
	struct soma_backend_event *event = make_event(f);

	ck_assert_int_eq(f->ops->event_record(f->g, event, from), SOMA_STATUS_OK);
	ck_assert_int_eq(f->ops->event_wait(f->g, event, to), SOMA_STATUS_OK);
	f->ops->event_destroy(f->g, event);
}

void
sync_stream(struct fixture *f, struct soma_backend_stream *stream)
{
	ck_assert_int_eq(f->ops->stream_synchronize(f->g, stream), SOMA_STATUS_OK);
}

enum soma_status
use(struct fixture *f, void *ptr, int access, struct soma_backend_stream *stream)
{
	return f->ops->block_use(f->g, (uint64_t)(uintptr_t)ptr, (enum soma_backend_access)access, stream);
}

uint64_t
scan_now(struct fixture *f)
{
	uint64_t damaged;

	ck_assert_int_eq(f->ops->guard_scan(f->g, &damaged), SOMA_STATUS_OK);
	return damaged;
}

void
drain(struct fixture *f)
{
	ck_assert_int_eq(f->ops->guard_drain(f->g, 0), SOMA_STATUS_OK);
}

void
expect_reports(struct fixture *f, const char *const *kinds, const char *file, int line)
{
	unsigned count = 0;

	for (; kinds[count] != NULL; count++) {
		ck_assert_msg(count < f->report_count, "%s:%d: inner %d: report %u is missing: %s", file,
			      line, (int)f->kind, count, kinds[count]);
		ck_assert_msg(strcmp(kinds[count], f->reports[count].kind) == 0,
			      "%s:%d: inner %d: report %u: %s was expected, got %s", file, line, (int)f->kind,
			      count, kinds[count], f->reports[count].text);
	}
	ck_assert_msg(count == f->report_count, "%s:%d: inner %d: %u reports, %u were expected: %s", file,
		      line, (int)f->kind, f->report_count, count,
		      f->report_count > count ? f->reports[count].text : "");
}

void
expect_text(struct fixture *f, unsigned at, const char *part, const char *file, int line)
{
	ck_assert_msg(at < f->report_count, "%s:%d: inner %d: no report %u", file, line, (int)f->kind, at);
	ck_assert_msg(strstr(f->reports[at].text, part) != NULL, "%s:%d: inner %d: \"%s\" is not in:\n%s",
		      file, line, (int)f->kind, part, f->reports[at].text);
}
