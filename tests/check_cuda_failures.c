/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of the driver fails at its first call, its second, and so on, through one script over a whole
 * stack: nothing is leaked, the ledger and the budget are exact, and what the script did not get is the only thing
 * that differs.
 */
#include "tests/cuda_fixture.h"

#include <soma/budget.h>
#include <soma/model.h>

#include "lib/resource/open.h"

#define STREAMS 3
#define BLOCKS 6

/* What the script has; a member that a failure kept away is 0 or NULL. */
struct script {
	const char *name;
	struct soma_resource *terminal, *budget;
	uint64_t streams[STREAMS];
	struct soma_block blocks[BLOCKS];
	bool live[BLOCKS];
	struct soma_backend_stream *raw;
	struct soma_backend_event *event;
	uint64_t span;
	void *memory;
};

static void
open_script(struct script *s)
{
	/* No stacks: see cuda_guard_fixture.h. */
	const struct soma_backend_option options[] = { { "async.export", "on" },
						       { "guard.on_error", "callback" },
						       { "guard.backtrace", "0" } };
	bool guarded = strncmp(s->name, "guard", 5) == 0, async = strstr(s->name, "async") != NULL;
	const struct soma__backend_config config = {
		.name = s->name,
		.search = BACKEND_FOLDERS,
		.option_count = (size_t)async + (guarded ? 2 : 0),
		.options = async ? options : options + 1,
	};

	if (soma__resource_open(&config, &s->terminal) != SOMA_STATUS_OK)
		return;
	backend = soma__resource_backend(s->terminal);
	ops = backend->ops;
	self = backend->self;
	if (guarded)
		OK(ops->guard_listen(self, NULL, NULL));
	if (soma_budget_create(s->terminal, 64 * MB, &s->budget) != SOMA_STATUS_OK)
		s->budget = NULL;
}

static void
use_block(struct script *s, int i, uint64_t stream, enum soma_access access)
{
	struct soma_use use = { .size = sizeof use };

	if (!s->live[i] ||
	    soma_resource_prepare_use(s->budget, s->blocks[i].id, stream, access, &use) != SOMA_STATUS_OK)
		return;
	(void)soma_resource_finish_use(s->budget, &use, 1);
}

static void
give_block(struct script *s, int i)
{
	if (s->live[i] && soma_resource_deallocate(s->budget, &s->blocks[i]) == SOMA_STATUS_OK)
		s->live[i] = false;
}

static void
play_stack(struct script *s)
{
	for (int i = 0; i < STREAMS; i++)
		if (soma_resource_stream_create(s->budget, SOMA_STREAM_NON_BLOCKING, &s->streams[i]) !=
		    SOMA_STATUS_OK)
			s->streams[i] = 0;
	for (int i = 0; i < BLOCKS; i++) {
		s->blocks[i] = (struct soma_block){ .size = sizeof s->blocks[i] };
		s->live[i] = soma_resource_allocate(s->budget, 1000 * (uint64_t)(i + 1),
						    s->streams[i % STREAMS], &s->blocks[i]) == SOMA_STATUS_OK;
	}
	use_block(s, 0, s->streams[1], SOMA_ACCESS_WRITE);
	use_block(s, 0, s->streams[2], SOMA_ACCESS_READ);
	use_block(s, 1, s->streams[0], SOMA_ACCESS_READ_WRITE);
	give_block(s, 0);
	give_block(s, 1);
	(void)soma_resource_reap_pending(s->budget);
	give_block(s, 2);
	if (s->streams[2] != 0)
		(void)soma_resource_stream_synchronize(s->budget, s->streams[2]);
	(void)soma_resource_trim_to(s->budget, 0);
	if (s->streams[1] != 0 && soma_resource_stream_destroy(s->budget, s->streams[1]) == SOMA_STATUS_OK)
		s->streams[1] = 0;
	give_block(s, 4);
}

static void
play_memory(struct script *s)
{
	unsigned char bytes[16];
	uint64_t ptr = s->live[5] ? s->blocks[5].ptr : 0, span = 0;
	bool spans = (backend->capabilities & SOMA_BACKEND_SPANS) != 0;

	/* It was allocated on another stream than it is used on here. */
	while (ops->synchronize(self) != SOMA_STATUS_OK)
		;
	if (ptr != 0) {
		(void)ops->fill8(self, ptr, 1, 100, NULL);
		(void)ops->fill32(self, ptr, 1, 100, s->raw);
		(void)ops->copy(self, ptr + 512, ptr, 256, s->raw);
		(void)ops->copy_to_host(self, bytes, ptr, sizeof bytes, NULL);
		(void)ops->copy_from_host(self, ptr, bytes, sizeof bytes, NULL);
		/* What was queued on a stream of the script's own must be over before the block goes. */
		while (s->raw != NULL && ops->stream_synchronize(self, s->raw) != SOMA_STATUS_OK)
			;
	}
	if (ops->staging_alloc(self, 4096, &s->memory) == SOMA_STATUS_OK &&
	    (backend->capabilities & SOMA_BACKEND_SCANS) != 0 && ptr != 0) {
		struct soma_backend_scan *range = s->memory;
		*range = (struct soma_backend_scan){ .ptr = ptr, .bytes = 8 };
		(void)ops->scan(self, range, 1, NULL);
	}
	if (spans && ops->span_reserve(self, 8 * MB, 0, &span) == SOMA_STATUS_OK) {
		bool mapped = ops->span_map(self, span, 8 * MB) == SOMA_STATUS_OK;
		if (mapped)
			mapped = ops->span_unmap(self, span + 2 * MB, 4 * MB) != SOMA_STATUS_OK;
		(void)mapped;
	}
}

static void
play_streams(struct script *s)
{
	struct soma_backend_stream_info info = { .size = sizeof info };
	struct soma_backend_stream *legacy;
	struct soma_backend_info about = { .size = sizeof about };
	bool done;

	if (ops->stream_default(self, SOMA_BACKEND_STREAM_PER_THREAD, &legacy) == SOMA_STATUS_OK)
		ops->stream_destroy(self, legacy);
	if (ops->stream_create(self, 0, &s->raw) != SOMA_STATUS_OK)
		s->raw = NULL;
	if (ops->event_create(self, 0, &s->event) != SOMA_STATUS_OK)
		s->event = NULL;
	if (s->raw != NULL) {
		(void)ops->stream_info(self, s->raw, &info);
		(void)ops->stream_query(self, s->raw, &done);
		(void)ops->stream_synchronize(self, s->raw);
	}
	if (s->raw != NULL && s->event != NULL) {
		(void)ops->event_record(self, s->event, s->raw);
		(void)ops->event_wait(self, s->event, s->raw);
		(void)ops->event_query(self, s->event, &done);
		(void)ops->event_synchronize(self, s->event);
	}
	(void)ops->synchronize(self);
	(void)ops->query(self, &about);
}

static void
play_pool(struct script *s)
{
	struct soma_backend_exported name;
	struct soma_backend_import *import;
	int descriptor;
	uint64_t value, there;
	bool can;

	if (backend->capabilities & SOMA_BACKEND_POOL) {
		(void)ops->pool_get(self, SOMA_BACKEND_USED_CURRENT, &value);
		(void)ops->pool_set(self, SOMA_BACKEND_USED_HIGH, 0);
	}
	if (backend->capabilities & SOMA_BACKEND_PEERS) {
		(void)ops->peer_can_access(self, 1, &can);
		(void)ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_READ_WRITE);
	}
	if (!(backend->capabilities & SOMA_BACKEND_EXPORTS) ||
	    ops->export_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, &descriptor) != SOMA_STATUS_OK)
		return;
	if (ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, descriptor, &import) == SOMA_STATUS_OK &&
	    s->live[5] && ops->export_block(self, s->blocks[5].ptr, &name) == SOMA_STATUS_OK &&
	    ops->import_block(self, import, &name, &there) == SOMA_STATUS_OK &&
	    ops->import_free(self, import, there, NULL) == SOMA_STATUS_OK)
		ops->import_close(self, import);
	close(descriptor);
}

/* Now nothing fails any more: everything can be given back, and adds up. */
static void
end_script(struct script *s, const char *what, uint64_t nth)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	if (s->raw != NULL)
		ops->stream_destroy(self, s->raw);
	if (s->event != NULL)
		ops->event_destroy(self, s->event);
	if (s->memory != NULL)
		ops->staging_free(self, s->memory, 4096);
	for (int i = 0; i < BLOCKS; i++) {
		if (s->live[i])
			OK(soma_resource_deallocate(s->budget, &s->blocks[i]));
	}
	OK(ops->synchronize(self));
	if (backend->capabilities & SOMA_BACKEND_GUARD) {
		OK(ops->guard_settle(self));
		OK(ops->guard_drain(self, 0));
	}
	OK(soma_resource_reap_pending(s->budget));
	OK(soma_resource_ledger(s->budget, &ledger));
	ck_assert_msg(ledger.live_count == 0 && ledger.retired_count == 0 && ledger.retired_bytes == 0,
		      "%s %s at its call %" PRIu64 ": %" PRIu64 " live, %" PRIu64 " retired", s->name, what,
		      nth, ledger.live_count, ledger.retired_count);
	ck_assert_uint_eq(ledger.alloc_count, ledger.free_count);
	ck_assert_uint_eq(soma_budget_reserved(s->budget), 0);
}

/* Whether the failure struck. */
static bool
play(const char *name, const char *what, uint64_t nth, int code)
{
	struct script s = { .name = name };
	char text[256] = "";

	fake.restart();
	fake.devices(2);
	ck_assert(fake.fail(what, nth, code));
	open_script(&s);
	if (s.budget != NULL) {
		play_streams(&s);
		play_stack(&s);
		play_memory(&s);
		play_pool(&s);
	}
	bool struck = fake.failures() > 0;
	fake.fail_none();
	if (s.budget != NULL)
		end_script(&s, what, nth);
	if (s.budget != NULL)
		soma_resource_release(s.budget);
	if (s.terminal != NULL)
		soma_resource_release(s.terminal);
	fake.leaks();
	fake.finding(0, NULL, text, sizeof text);
	ck_assert_msg(fake.findings() == 0, "%s with %s failing at its call %" PRIu64 ": %s", name, what, nth,
		      text);
	ck_assert_uint_eq(fake.live(FAKE_CONTEXTS), 0);
	return struck;
}

static void
play_all(const char *name, int code)
{
	uint64_t plays = 0, entries = 0;
	const char *what;

	start_fake();
	for (size_t i = 0; (what = fake.entry(i)) != NULL; i++) {
		uint64_t nth = 1;
		while (play(name, what, nth, code))
			nth++;
		plays += nth;
		entries += nth > 1;
	}
	ck_assert_uint_ge(entries, 30);
	printf("%s, code %d: %" PRIu64 " failures of %" PRIu64 " entries\n", name, code, plays - entries,
	       entries);
}

START_TEST(async_survives_each)
{
	play_all("async", CUDA_ERROR_UNKNOWN);
}
END_TEST
START_TEST(async_survives_each_out_of_memory)
{
	play_all("async", CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST
START_TEST(sync_survives_each)
{
	play_all("sync", CUDA_ERROR_UNKNOWN);
}
END_TEST
START_TEST(a_guard_around_async_survives_each)
{
	play_all("guard:async", CUDA_ERROR_UNKNOWN);
}
END_TEST
START_TEST(a_guard_around_sync_survives_each)
{
	play_all("guard:sync", CUDA_ERROR_UNKNOWN);
}
END_TEST

CUDA_MAIN("cuda failures", async_survives_each, async_survives_each_out_of_memory, sync_survives_each,
	  a_guard_around_async_survives_each, a_guard_around_sync_survives_each)
