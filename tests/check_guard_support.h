/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A guard around a backend, for its tests: a small backend of our own (over malloc, with
 * streams that run when told), with memory that the guard may or may not touch, or the host
 * module; a host table that counts and can fail; the reports, kept.
 */
#ifndef SOMA_TESTS_CHECK_GUARD_SUPPORT_H
#define SOMA_TESTS_CHECK_GUARD_SUPPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

#define REPORTS_MAX 256

enum inner_kind {
	INNER_DIRECT, /* ours, memory by pointer */
	INNER_COPIES, /* ours, memory by copies */
	INNER_HOST,   /* the host module */
	INNER_KINDS,
};

struct seen {
	char kind[32];
	uint64_t ptr;
	char *text, *json;
};

struct fixture {
	enum inner_kind kind;
	const struct soma_backend_ops *ops;
	struct soma_backend *g;
	struct soma_backend_host host, inner_host;
	struct soma_backend_inner inner;
	const struct soma_backend_ops *inner_ops;
	struct seen reports[REPORTS_MAX];
	_Atomic unsigned report_count;
	_Atomic uint64_t released_count;
	char error[512];        /* the last one recorded */
	pthread_mutex_t mutex;  /* protects records */
	struct record *records; /* the inner backend's */
};

/* Counters and failures, of the process. */
extern _Atomic int64_t table_live;    /* bytes from the host table */
extern _Atomic int64_t table_fail_in; /* the allocation after so many fails; < 0: none */
extern _Atomic int64_t toy_live;      /* blocks, streams, events of our backend */
extern _Atomic int64_t toy_fail_in;   /* likewise, operations of our backend */
extern _Atomic int64_t toy_early;     /* copies to memory that the one before has not left yet */
extern _Atomic uint64_t toy_limit;    /* bytes; 0: none */
extern _Atomic bool toy_gone;         /* no operation works any more */

/* options: key, value, ..., NULL.  on_error=callback and race=strict unless given.  False: it did not open
 * (see error). */
bool fixture_try(struct fixture *f, enum inner_kind kind, const char *const *options);
void fixture_open(struct fixture *f, enum inner_kind kind, const char *const *options);
/* Closes, and checks that nothing is left of the table's memory and of our backend. */
void fixture_close(struct fixture *f);
/* The guard stays open; for what happens at exit. */
void fixture_forget_reports(struct fixture *f);

/* ---- shorthands that assert success -------------------------------------------------- */

struct soma_backend_stream *make_stream(struct fixture *f, unsigned flags);
struct soma_backend_stream *legacy_stream(struct fixture *f);
struct soma_backend_event *make_event(struct fixture *f);
unsigned char *take(struct fixture *f, uint64_t size, struct soma_backend_stream *stream);
void give(struct fixture *f, void *ptr, uint64_t size, struct soma_backend_stream *stream);
void order(struct fixture *f, struct soma_backend_stream *from, struct soma_backend_stream *to);
void sync_stream(struct fixture *f, struct soma_backend_stream *stream);
enum soma_status use(struct fixture *f, void *ptr, int access, struct soma_backend_stream *stream);
uint64_t scan_now(struct fixture *f);
void drain(struct fixture *f);

/* Exactly these kinds so far, in this order; ends with NULL. */
void expect_reports(struct fixture *f, const char *const *kinds, const char *file, int line);
#define EXPECT(f, ...) \
	expect_reports(f, (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL }, __FILE__, __LINE__)
/* The text of report `at` has this in it. */
void expect_text(struct fixture *f, unsigned at, const char *part, const char *file, int line);
#define EXPECT_TEXT(f, at, part) expect_text(f, at, part, __FILE__, __LINE__)

#endif
