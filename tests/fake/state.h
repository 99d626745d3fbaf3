/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the stand-in share.  One mutex, world.mutex, covers everything; it is
 * taken by enter() or control_enter() and let go only around host callbacks and while waiting.  Functions below
 * expect it to be held unless they say otherwise.
 */
#ifndef SOMA_TESTS_FAKE_STATE_H
#define SOMA_TESTS_FAKE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fake/api.h"
#include "tests/fake/facts.h"
#include "tests/fake/fake.h"

#define EXPORT __attribute__((visibility("default")))

enum entry {
#define X(name, symbol, since, flags, args) E_##symbol,
	FAKE_ENTRIES(X)
#undef X
		ENTRIES,
};

enum entry_flags {
	ENTRY_ALWAYS = 1,
	ENTRY_PLAIN = 2,
	ENTRY_STICKY = 4,
	ENTRY_STREAM = 8,
	ENTRY_CTX = 16,
	ENTRY_WAITS = 32,
	ENTRY_UNSAFE = 64,
};

/* ---- trees: nodes by two keys (tree.c) -------------------------------------------- */

struct node {
	uint64_t key, second;
	struct node *left, *right;
	uint64_t priority;
};

void tree_put(struct node **root, struct node *node);
void tree_drop(struct node **root, struct node *node);
struct node *tree_at_most(struct node *root, uint64_t key);               /* greatest with key <= */
struct node *tree_from(struct node *root, uint64_t key, uint64_t second); /* least with (key, second) >= */
#define TREE_OF(n, type) ((type *)(void *)(n)) /* the node is first in its record */

/* ---- handles (handle.c) ------------------------------------------------------------- */

enum kind {
	KIND_CONTEXT,
	KIND_STREAM,
	KIND_EVENT,
	KIND_POOL,
	KIND_MODULE,
	KIND_FUNCTION,
	KIND_GRAPH,
	KIND_GRAPH_EXEC,
	KINDS,
};

struct handle {
	enum kind kind;
	bool live;
	struct handle *next; /* all of the kind, ever */
	struct handle *spare;
	struct fake_context *context; /* dies with it; may be NULL */
};

void *handle_new(enum kind kind, size_t size, struct fake_context *context);
void handle_drop(void *handle);
/* NULL, with a finding, unless it is a live handle of the kind. */
void *handle_find(const void *handle, enum kind kind);
struct handle *handle_first(enum kind kind);
void handles_restart(void);

/* ---- contexts and threads ------------------------------------------------------------ */

struct fake_context {
	struct handle handle;
	int device;
	uint64_t id;
	unsigned refs;
	bool active;
	CUresult sticky;
	CUresult deferred;
	uint64_t fail_in; /* 0, or this many operations until one leaves fail_code */
	CUresult fail_code;
	bool fail_sticky;
	unsigned peers; /* bits: devices whose memory it may use */
	struct lane *legacy;
};

struct device {
	uint64_t total, taken;
	bool pools, vmm;
	unsigned peers; /* bits: it could access */
	struct fake_context *primary;
	struct pool *default_pool;
	struct pool *current_pool;
	struct pool *sync; /* what cuMemAlloc takes from */
};

#define CONTEXT_STACK 16

struct thread {
	struct thread *next;
	struct fake_context *stack[CONTEXT_STACK];
	unsigned depth;
	struct lane *own[FAKE_DEVICES_MAX]; /* per-thread default streams */
	CUstreamCaptureMode capture_mode;
	CUresult deferred; /* what leave() will answer */
	volatile bool inside;
	volatile bool in_callback;
};

/* The calling thread's; NULL before its first call.  Not looked up at run time: it is on the way of every call, and
 * a driver's own way is short. */
extern __thread struct thread *thread_mine __attribute__((tls_model("initial-exec"), visibility("hidden")));
struct thread *thread_make(void);

static inline struct thread *
thread_self(void) /* any time */
{
	return __builtin_expect(thread_mine != NULL, 1) ? thread_mine : thread_make();
}

struct fake_context *context_current(void);
CUresult context_destroy(struct fake_context *context);
void context_fail(struct fake_context *context, CUresult code, bool sticky);

/* ---- lanes: what streams are underneath (lane.c) -------------------------------------- */

struct dep {
	struct lane *lane;
	uint64_t pos;
};

struct lane {
	struct lane *next; /* world.lanes */
	unsigned index;
	uint64_t id; /* of the stream that it is now; never again */
	struct fake_context *context;
	bool blocking, legacy, in_use, busy;
	uint64_t submitted, executed;
	uint64_t observed; /* the host has waited for it */
	uint64_t known;    /* the host knows, by a wait or a query */
	uint64_t barrier;  /* submitted, at the latest event */
	uint64_t *clock;   /* by index: others' positions that its next operation comes after */
	unsigned clocks;
	struct op *head, **tail;
	unsigned lag;
	bool joined; /* the origin of its capture has waited for it */
	struct capture *capture;
};

struct fake_stream {
	struct handle handle;
	struct lane *lane;
	unsigned flags;
};

struct lane *lane_open(struct fake_context *context, bool blocking);
void lane_close(struct lane *lane);
uint64_t lane_clock(const struct lane *lane, unsigned index);
void clock_raise(uint64_t **clock, unsigned *clocks, unsigned index, uint64_t pos);
void lane_join(struct lane *lane, struct lane *other, uint64_t pos, const uint64_t *clock, unsigned clocks);
void lane_seen(struct lane *lane, uint64_t pos, const uint64_t *clock, unsigned clocks, bool waited);
struct lane *lane_by_index(unsigned index);
/* The stream's; NULL is the legacy one or, with own, the thread's. */
CUresult lane_find(CUstream stream, bool own, struct lane **lane);
void lanes_restart(void);

/* ---- memory (memory.c): what was allocated, as the program and the streams see it ------ */

enum memory_kind {
	MEMORY_SYNC,
	MEMORY_POOL,
	MEMORY_GRAPH,
	MEMORY_IMPORT,
	MEMORY_HOST,
	MEMORY_MAPPED, /* by cuMemMap */
};

struct memory {
	struct node node; /* world.memory, by address; a freed one stays until its place is taken */
	uint64_t address, bytes, capacity;
	enum memory_kind kind;
	int device;
	unsigned refs; /* the tree, operations, graphs */
	uint64_t serial;
	struct fake_context *context;
	struct pool *pool;
	struct block *block;
	struct dep made; /* lane NULL: at once */
	bool made_done;
	bool freed, freed_done;
	struct dep *uses; /* the latest of each lane */
	unsigned use_count, use_room;
	CUmemAccess_flags access[FAKE_DEVICES_MAX]; /* MAPPED */
	uint64_t handle;                            /* MAPPED */
};

struct memory *memory_new(enum memory_kind kind, uint64_t address, uint64_t bytes, uint64_t capacity);
void memory_ref(struct memory *memory);
void memory_unref(struct memory *memory);
void memory_forget(struct memory *memory); /* out of the tree */
void memory_forget_range(uint64_t address, uint64_t bytes);
struct memory *memory_at(uint64_t address);   /* the one that holds it, freed or not; or NULL */
struct memory *memory_live(uint64_t address); /* that starts there */
bool memory_outstanding(const struct memory *memory);
bool memory_accessible(const struct memory *memory, const struct lane *lane, bool write);
void memories_restart(void);

/* Address space that is there (space.c). */
struct region {
	struct node node;
	uint64_t address, bytes;
	int fd; /* of an exportable pool; else -1 */
	uint64_t offset;
};

bool region_map(struct region *region, uint64_t bytes, int fd, uint64_t offset);
void region_unmap(struct region *region);
void region_note(struct region *region); /* made by somebody else */
void region_forget(struct region *region);
bool region_holds(uint64_t address, uint64_t bytes);

/* ---- pools (place.c, pool.c, share.c) -------------------------------------------------- */

struct block {
	struct node node; /* pool->free by (bytes, address), while it is free */
	uint64_t address, bytes;
	struct segment *segment;
	struct block *before, *after;
	bool free;
	struct dep freed; /* lane NULL: seen by the host */
	struct block *pending_next, **pending_link;
};

struct segment {
	struct region region;
	struct segment *next, **link;
	struct block *first;
};

struct fake_pool_handle {
	struct handle handle;
	struct pool *pool;
};

struct pool {
	struct fake_pool_handle *handle; /* NULL: destroyed, or the device's own for cuMemAlloc */
	int device;
	bool is_default, destroyed, imported;
	int follow, opportunistic, internal;
	uint64_t threshold, max, step;
	uint64_t reserved, reserved_high, used, used_high;
	uint64_t outstanding; /* allocations whose free has not executed */
	CUmemAccess_flags access[FAKE_DEVICES_MAX];
	CUmemAllocationHandleType handle_types;
	int fd;
	uint64_t fd_end;
	struct segment *segments;
	struct node *free;
	struct block *pending;
	bool idle; /* there may be segments that are one block which the host has seen freed */
	struct pool *next, **link;
};

struct pool *pool_new(int device, uint64_t step);
void pool_delete(struct pool *pool);
struct pool *pool_find(CUmemoryPool handle);
/* A place for bytes on the lane (NULL: now); *wait is set when the lane must wait for it. */
CUresult place_take(struct pool *pool, struct lane *lane, uint64_t bytes, struct block **block,
		    struct dep *wait);
void place_give(struct pool *pool, struct block *block, struct lane *lane, uint64_t pos);
void pool_settle(struct pool *pool);
void pool_release(struct pool *pool, uint64_t keep);
void pools_synchronized(bool release);
void pool_freed(struct pool *pool); /* one outstanding free has executed */
void pool_count(struct pool *pool, uint64_t bytes);
void pool_uncount(struct pool *pool, uint64_t bytes);
void host_release(struct memory *memory);
CUresult memory_free_now(uint64_t address);
CUresult import_free(struct memory *memory);
void pools_restart(void);

/* ---- work (work.c, run.c) ---------------------------------------------------------------- */

enum op_kind { OP_ALLOC, OP_FREE, OP_RECORD, OP_WAIT, OP_FILL, OP_COPY, OP_HOST, OP_KERNEL, OP_GRAPH };

struct use {
	struct memory *memory;
	uint64_t address, bytes;
	bool write;
};

struct op {
	struct op *next;
	enum op_kind kind;
	const char *what; /* the entry */
	struct lane *lane;
	uint64_t pos;
	struct dep *deps;
	unsigned dep_count, dep_room;
	struct use *uses;
	unsigned use_count, use_room;
	uint64_t to, from, bytes;
	uint32_t value;
	unsigned width;
	struct memory *memory;
	CUhostFn function;
	void *data; /* owned, but of OP_HOST */
	struct graph *graph;
	void (*kernel)(void *const *params, unsigned blocks, unsigned threads);
	void *params[16];
	unsigned blocks, threads;
};

struct op *op_new(enum op_kind kind, const char *what);
void op_free(struct op *op);
void op_wait_for(struct op *op, struct lane *lane, uint64_t pos);
/* The access is checked now and again when it runs.  INVALID_VALUE: nothing is there. */
CUresult op_use(struct op *op, struct lane *lane, uint64_t address, uint64_t bytes, bool write);
void op_use_wild(struct op *op, uint64_t address, uint64_t bytes); /* will fault */
/* Queues it, or makes it a node of the capture; takes the op in any case. */
CUresult submit(struct lane *lane, struct op *op);
/* What the legacy stream and blocking ones wait for without being told. */
void lane_join_implicit(struct lane *lane);
void ops_restart(void);

/* What the operation does, checks included; lets world.mutex go around callbacks. */
void op_run(struct op *op);
bool lane_can_run(const struct lane *lane);
void lane_run_one(struct lane *lane);
void drive(struct lane *lane, uint64_t pos);
void drive_context(struct fake_context *context); /* NULL: all */
void work_added(struct lane *lane);
void worker_stop(void);
void worker_forget(void); /* in a forked child */

/* ---- captures (capture.c, graph.c) --------------------------------------------------------- */

struct graph {
	unsigned refs;
	struct op *ops, **tail;
	unsigned count;
	struct memory **owned;
	struct region **regions;
	unsigned owned_count;
};

struct capture {
	struct capture *next;
	uint64_t id;
	CUstreamCaptureMode mode;
	struct thread *thread;
	struct lane *origin;
	struct graph *graph;
	CUgraph handle;
	bool invalid;
	unsigned lanes;  /* that take part */
	unsigned joined; /* of them, waited for by the origin */
};

struct graph *graph_new(void);
CUgraph graph_handle(struct graph *graph); /* takes the reference */
void graph_handle_drop(CUgraph handle);
void graphs_restart(void);
void graph_unref(struct graph *graph);
CUresult graph_alloc(struct capture *capture, struct pool *pool, uint64_t bytes, struct memory **memory);
CUresult capture_add(struct capture *capture, struct op *op);
CUresult capture_status(struct lane *lane); /* what a call on a captured stream that may not be answers */
CUresult captures_forbid(struct thread *thread); /* of an UNSAFE call */
CUresult captures_conflict(struct fake_context *context);
/* Of a call on the legacy stream; asking alone does the captures no harm. */
CUresult capture_legacy(struct fake_context *context, bool asks);
void capture_invalidate(struct capture *capture);
void capture_leave(struct lane *lane);
void captures_restart(void);

/* ---- events --------------------------------------------------------------------------------- */

struct fake_event {
	struct handle handle;
	struct dep at; /* lane NULL: never recorded */
	uint64_t *clock;
	unsigned clocks;
	struct capture *capture;
	uint64_t capture_id;
	struct lane *captured_on;
};

void event_fini(struct fake_event *event);

/* ---- the rest ---------------------------------------------------------------------------------- */

void finding(enum fake_finding kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void findings_restart(void);
void findings_at_exit(void);
uint64_t leaks_note(void);

CUresult fail_now(enum entry entry); /* what an order says of this call, else SUCCESS */
void fail_restart(void);
bool fail_parse(const char *text);
void proc_restart(void);
extern const char *const entry_names[ENTRIES];
extern const unsigned entry_flags_of[ENTRIES];
extern const int entry_since[ENTRIES];

void devices_restart(void);
void devices_open(void);
struct device *device_at(CUdevice ordinal); /* NULL: no such */

void module_fini(struct fake_module *module);
void kernels_restart(void);
uint64_t vmm_live(enum fake_object object);
void vmm_restart(void);
void share_restart(void);

struct world {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool initialized, gone, forked;
	int version;
	CUresult init_result;
	enum fake_mode mode;
	uint64_t random;
	unsigned delay;
	bool recycle, check_signals, deferred_calls_work;
	int device_count;
	struct device devices[FAKE_DEVICES_MAX];
	struct thread *threads;
	struct lane *lanes;
	struct capture *captures;
	struct node *memory;
	struct pool *pools;
	uint64_t serial;
};
extern struct world world;

/* SUCCESS: the mutex is held and leave() must follow. */
CUresult enter(enum entry entry);
CUresult leave(CUresult result);
void control_enter(void);
void control_leave(void);
uint64_t draw(uint64_t below);

#define CALL(entry, does)                       \
	do {                                    \
		CUresult r_ = enter(E_##entry); \
		if (r_ == CUDA_SUCCESS)         \
			r_ = leave(does);       \
		return r_;                      \
	} while (0)

#endif
