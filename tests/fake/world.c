/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of every call: the mutex, what a call needs (a driver, a context), what it has
 * to answer instead of working, and who may not call at all.  Also set-up from
 * the environment, threads, fork and the end of the process.
 */
#include "tests/fake/state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct world world = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static atomic_bool watch_signals;
__thread struct thread *thread_mine;

/* ---- threads ---------------------------------------------------------------------- */

static void
thread_gone(void *data)
{
	struct thread *self = data;

	thread_mine = NULL;
	pthread_mutex_lock(&world.mutex);
	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		if (self->own[i] != NULL)
			lane_close(self->own[i]);
	for (struct capture *c = world.captures; c != NULL; c = c->next)
		if (c->thread == self)
			c->thread = NULL;
	for (struct thread **link = &world.threads; *link != NULL; link = &(*link)->next) {
		if (*link == self) {
			*link = self->next;
			break;
		}
	}
	pthread_mutex_unlock(&world.mutex);
	free(self);
}

static void set_up(void);

struct thread *
thread_make(void)
{
	pthread_once(&once, set_up);
	struct thread *self = calloc(1, sizeof *self);
	if (self == NULL || pthread_setspecific(key, self) != 0)
		abort();
	pthread_mutex_lock(&world.mutex);
	self->next = world.threads;
	world.threads = self;
	pthread_mutex_unlock(&world.mutex);
	thread_mine = self;
	return self;
}

/* ---- set-up ------------------------------------------------------------------------- */

uint64_t
draw(uint64_t below)
{
	uint64_t x = world.random += UINT64_C(0x9e3779b97f4a7c15);

	if (below <= 1)
		return 0;
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (x ^ (x >> 31)) % below;
}

static uint64_t
env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 0) : otherwise;
}

static void
set_defaults(void)
{
	world.initialized = false;
	world.version = 13000;
	world.init_result = CUDA_SUCCESS;
	world.mode = FAKE_IMMEDIATE;
	world.random = 1;
	world.delay = 0;
	world.recycle = true;
	world.check_signals = true;
	world.deferred_calls_work = FAKE_DEFERRED_CALL_WORKS;
	world.device_count = 2;
	devices_restart();
}

static void
set_from_environment(void)
{
	const char *mode = getenv("FAKE_CUDA_MODE");

	if (mode != NULL && strcmp(mode, "stepped") == 0)
		world.mode = FAKE_STEPPED;
	else if (mode != NULL && strcmp(mode, "threads") == 0)
		world.mode = FAKE_THREADS;
	world.random = env_number("FAKE_CUDA_SEED", 1);
	world.delay = (unsigned)env_number("FAKE_CUDA_DELAY", 0);
	world.device_count = (int)env_number("FAKE_CUDA_DEVICES", 2);
	if (world.device_count < 0 || world.device_count > FAKE_DEVICES_MAX)
		world.device_count = FAKE_DEVICES_MAX;
	world.version = (int)env_number("FAKE_CUDA_VERSION", 13000);
	world.init_result = (CUresult)env_number("FAKE_CUDA_INIT", 0);
	world.recycle = env_number("FAKE_CUDA_RECYCLE", 1) != 0;
	world.check_signals = env_number("FAKE_CUDA_CHECK_SIGNALS", 1) != 0;
	for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
		world.devices[i].total = env_number("FAKE_CUDA_MEMORY", world.devices[i].total);
		world.devices[i].pools = env_number("FAKE_CUDA_POOLS", 1) != 0;
		world.devices[i].vmm = env_number("FAKE_CUDA_VMM", 1) != 0;
	}
	if (!fail_parse(getenv("FAKE_CUDA_FAIL")))
		finding(FAKE_FOUND_STALE_HANDLE, "FAKE_CUDA_FAIL: expected ENTRY:NTH:CODE[,...]");
}

static void
before_fork(void)
{
	pthread_mutex_lock(&world.mutex);
}

static void
after_fork(void)
{
	pthread_mutex_unlock(&world.mutex);
}

/* The child has no worker.  What it inherits is as good as gone, but for what restart can do. */
static void
after_fork_in_child(void)
{
	world.forked = world.initialized;
	worker_forget();
	pthread_mutex_unlock(&world.mutex);
	pthread_cond_init(&world.changed, NULL);
}

static void
set_up(void)
{
	pthread_key_create(&key, thread_gone);
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
	set_defaults();
	set_from_environment();
	atomic_store(&watch_signals, world.check_signals);
}

/* ---- the door -------------------------------------------------------------------------- */

/* On an alternate stack, or with the signal blocked that its handler is for. */
static bool
in_signal_handler(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
	sigset_t blocked;
	stack_t stack;

	if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_ONSTACK) != 0)
		return true;
	if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) != 0)
		return false;
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		if (sigismember(&blocked, faults[i]) == 1)
			return true;
	return false;
}

static CUresult
refuse(enum entry entry, enum fake_finding kind, CUresult code)
{
	finding(kind, "%s", entry_names[entry]);
	return code;
}

/* The current context's, or for want of one that of the first device that has one. */
static struct fake_context *
context_concerned(const struct thread *self)
{
	struct fake_context *context = self->depth != 0 ? self->stack[self->depth - 1] : NULL;

	for (int i = 0; context == NULL && i < world.device_count; i++)
		if (world.devices[i].primary != NULL && world.devices[i].primary->sticky != 0)
			context = world.devices[i].primary;
	return context;
}

static CUresult
check_context(struct thread *self, unsigned flags)
{
	struct fake_context *context = context_concerned(self);

	if (context == NULL)
		return flags & ENTRY_CTX ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
	if (!context->active && (flags & (ENTRY_CTX | ENTRY_STREAM)) != 0)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (context->sticky != CUDA_SUCCESS)
		return context->sticky;
	CUresult deferred = context->deferred;
	if (deferred == CUDA_SUCCESS || (flags & (ENTRY_CTX | ENTRY_STREAM)) == 0)
		return CUDA_SUCCESS;
	context->deferred = CUDA_SUCCESS;
	if (!world.deferred_calls_work && (flags & ENTRY_WAITS) == 0)
		return deferred;
	self->deferred = deferred;
	return CUDA_SUCCESS;
}

static CUresult
check(struct thread *self, enum entry entry)
{
	unsigned flags = entry_flags_of[entry];
	CUresult result = CUDA_SUCCESS;

	if (world.gone)
		return refuse(entry, FAKE_FOUND_AFTER_EXIT, CUDA_ERROR_DEINITIALIZED);
	if (world.forked)
		return refuse(entry, FAKE_FOUND_AFTER_FORK, FAKE_CALL_AFTER_FORK);
	if (entry_since[entry] > world.version)
		return CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
	if (!world.initialized && (flags & ENTRY_ALWAYS) == 0)
		return CUDA_ERROR_NOT_INITIALIZED;
	result = fail_now(entry);
	if (result == CUDA_SUCCESS && (flags & (ENTRY_ALWAYS | ENTRY_PLAIN)) == 0)
		result = check_context(self, flags);
	if (result == CUDA_SUCCESS && (flags & ENTRY_UNSAFE) != 0)
		result = captures_forbid(self);
	return result;
}

CUresult
enter(enum entry entry)
{
	struct thread *self = thread_self();
	CUresult result;

	/* A handler that interrupted a call would wait for its own thread. */
	if (self->inside)
		return refuse(entry, FAKE_FOUND_IN_SIGNAL, FAKE_CALL_IN_SIGNAL);
	if (self->in_callback)
		return refuse(entry, FAKE_FOUND_IN_CALLBACK, FAKE_CALL_IN_CALLBACK);
	if (atomic_load_explicit(&watch_signals, memory_order_relaxed) && in_signal_handler())
		return refuse(entry, FAKE_FOUND_IN_SIGNAL, FAKE_CALL_IN_SIGNAL);
	self->inside = true;
	pthread_mutex_lock(&world.mutex);
	self->deferred = CUDA_SUCCESS;
	result = check(self, entry);
	if (result != CUDA_SUCCESS) {
		pthread_mutex_unlock(&world.mutex);
		self->inside = false;
	}
	return result;
}

CUresult
leave(CUresult result)
{
	struct thread *self = thread_self();

	if (result == CUDA_SUCCESS)
		result = self->deferred;
	pthread_mutex_unlock(&world.mutex);
	self->inside = false;
	return result;
}

void
control_enter(void)
{
	thread_self()->inside = true;
	pthread_mutex_lock(&world.mutex);
}

void
control_leave(void)
{
	pthread_mutex_unlock(&world.mutex);
	thread_self()->inside = false;
}

/* ---- ends --------------------------------------------------------------------------------- */

static void
forget_everything(void)
{
	captures_restart();
	lanes_restart();
	pools_restart();
	vmm_restart();
	memories_restart();
	kernels_restart();
	handles_restart();
	fail_restart();
	proc_restart();
	for (struct thread *t = world.threads; t != NULL; t = t->next) {
		t->depth = 0;
		t->capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
		memset(t->own, 0, sizeof t->own);
	}
}

EXPORT void
fake_cuda_restart(void)
{
	thread_self();
	if (!world.forked)
		worker_stop();
	control_enter();
	forget_everything();
	findings_restart();
	world.forked = false;
	set_defaults();
	set_from_environment();
	atomic_store(&watch_signals, world.check_signals);
	control_leave();
}

EXPORT void
fake_cuda_check_signals(bool check_them)
{
	control_enter();
	world.check_signals = check_them;
	atomic_store(&watch_signals, check_them);
	control_leave();
}

EXPORT void
fake_cuda_recycle(bool they_do)
{
	control_enter();
	world.recycle = they_do;
	control_leave();
}

EXPORT void
fake_cuda_deferred_calls_work(bool they_do)
{
	control_enter();
	world.deferred_calls_work = they_do;
	control_leave();
}

__attribute__((destructor)) static void
process_ends(void)
{
	bool forked = world.forked;

	if (!forked)
		worker_stop();
	pthread_mutex_lock(&world.mutex);
	world.gone = true;
	pthread_mutex_unlock(&world.mutex);
	if (!forked)
		findings_at_exit();
}
