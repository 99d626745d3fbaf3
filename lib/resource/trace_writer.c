/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing side of a trace.  Whole lines go to the file at once, so that a process that is killed leaves
 * a trace that can be read up to its last line.  Locking: see the header.
 */
#include "lib/resource/trace_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/log.h"

#define FLUSH_MS_DEFAULT 100
#define PATIENCE_MS_DEFAULT 1000

enum { NOT_STARTED, STARTING, RUNNING, NO_THREAD };

/* ---- fork ------------------------------------------------------------------------------ */

static _Atomic unsigned forks; /* how many times this process is a child */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void
note_fork(void)
{
	atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void
watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, note_fork);
}

static bool
is_child(const struct soma__trace_writer *writer)
{
	return atomic_load_explicit(&forks, memory_order_relaxed) != writer->forks;
}

/* ---- the file: under `writing` ------------------------------------------------------------ */

static void
write_failed(struct soma__trace_writer *writer, int error)
{
	writer->error = error;
	soma__log(SOMA_LOG_ERROR, "a trace cannot be written any more: %s", strerror(error));
}

/* A pipe without a reader is this trace's error and not the program's end: a SIGPIPE that comes of the
 * write is taken back, one that was pending before stays. */
static ssize_t
write_quietly(int fd, const char *text, size_t size)
{
	sigset_t broken, old, pending;
	int error;

	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &broken, &old);
	ssize_t put = write(fd, text, size);
	error = errno;
	if (put < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
		(void)sigtimedwait(&broken, NULL, &(struct timespec){ 0 });
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return put;
}

/* False: the error is none that passes. */
static bool
wait_to_write(int fd)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	if (errno == EAGAIN)
		return poll(&room, 1, -1) >= 0 || errno == EINTR;
	return errno == EINTR;
}

static void
write_buffer(struct soma__trace_writer *writer)
{
	size_t done = 0;

	while (done < writer->used && writer->error == 0) {
		ssize_t put = write_quietly(writer->fd, writer->buffer + done, writer->used - done);
		if (put < 0 && !wait_to_write(writer->fd))
			write_failed(writer, errno);
		if (put > 0)
			done += (size_t)put;
	}
	if (writer->error == 0)
		writer->events += writer->buffered_events;
	else
		atomic_fetch_add_explicit(&writer->dropped, writer->buffered_events, memory_order_relaxed);
	writer->buffered_events = 0;
	writer->used = 0;
}

static char *
line_room(struct soma__trace_writer *writer)
{
	if (SOMA__TRACE_BUFFER - writer->used < SOMA__TRACE_LINE_MAX)
		write_buffer(writer);
	return writer->buffer + writer->used;
}

static void
say_lost(struct soma__trace_writer *writer, uint64_t lost)
{
	if (lost == 0)
		return;
	writer->used += soma__trace_lost_line(line_room(writer), writer->device, writer->last_ns, lost);
	soma__log(SOMA_LOG_WARNING, "a trace lost %" PRIu64 " events: there was no room for them", lost);
}

static void
account(struct soma__trace_writer *writer, const struct soma__trace_event *event)
{
	if (event->op == SOMA__TRACE_ALLOC)
		writer->live_bytes += event->size;
	else if (event->op == SOMA__TRACE_FREE)
		writer->live_bytes -= event->size < writer->live_bytes ? event->size : writer->live_bytes;
	if (writer->live_bytes > writer->peak_bytes)
		writer->peak_bytes = writer->live_bytes;
}

/* Threads read the clock before they take a place, so times may go back a little. */
static void
write_event(struct soma__trace_writer *writer, struct soma__trace_event *event)
{
	if (event->time_ns < writer->last_ns)
		event->time_ns = writer->last_ns;
	writer->last_ns = event->time_ns;
	say_lost(writer, event->lost);
	writer->used += soma__trace_line(line_room(writer), writer->device, event);
	writer->buffered_events++;
	account(writer, event);
}

static void
tell_room(struct soma__trace_writer *writer)
{
	if (atomic_load(&writer->waiting) == 0)
		return;
	pthread_mutex_lock(&writer->waking);
	pthread_cond_broadcast(&writer->room);
	pthread_mutex_unlock(&writer->waking);
}

/* All that was put before the call; how many. */
static uint64_t
drain(struct soma__trace_writer *writer)
{
	uint64_t until = atomic_load(&writer->ring.tail), count = 0;
	struct soma__trace_event event;

	pthread_mutex_lock(&writer->writing);
	while (atomic_load_explicit(&writer->ring.head, memory_order_relaxed) < until) {
		if (!soma__trace_ring_take(&writer->ring, &event))
			break;
		write_event(writer, &event);
		if (++count % 256 == 0)
			tell_room(writer);
	}
	write_buffer(writer);
	pthread_mutex_unlock(&writer->writing);
	tell_room(writer);
	return count;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static struct timespec
after_ms(uint32_t ms)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += ms % 1000 * 1000000l;
	if (at.tv_nsec >= 1000000000l) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000l;
	}
	return at;
}

static bool
is_empty(struct soma__trace_writer *writer)
{
	return atomic_load(&writer->ring.tail) == atomic_load(&writer->ring.head);
}

/* Who puts takes its place before it looks at `idle`, and here it is the other way round: so
 * one of the two sees the other. */
static void
rest(struct soma__trace_writer *writer, bool quiet)
{
	struct timespec until = after_ms(writer->flush_ms);

	pthread_mutex_lock(&writer->waking);
	atomic_store(&writer->idle, quiet);
	if (quiet && is_empty(writer) && !atomic_load(&writer->closing))
		pthread_cond_wait(&writer->wake, &writer->waking);
	else if (!atomic_load(&writer->closing) && atomic_load(&writer->waiting) == 0)
		pthread_cond_timedwait(&writer->wake, &writer->waking, &until);
	atomic_store(&writer->idle, false);
	pthread_mutex_unlock(&writer->waking);
}

static void *
run_writer(void *argument)
{
	struct soma__trace_writer *writer = argument;

	while (!atomic_load(&writer->closing)) {
		uint64_t count = drain(writer);
		rest(writer, count == 0);
	}
	return NULL;
}

static void
wake_writer(struct soma__trace_writer *writer)
{
	pthread_mutex_lock(&writer->waking);
	pthread_cond_signal(&writer->wake);
	pthread_mutex_unlock(&writer->waking);
}

/* The program's signals are not for this thread. */
static int
create_thread(struct soma__trace_writer *writer)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&writer->thread, NULL, run_writer, writer);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

static void
start_thread(struct soma__trace_writer *writer)
{
	int not_started = NOT_STARTED, error;

	if (!atomic_compare_exchange_strong(&writer->started, &not_started, STARTING))
		return;
	error = create_thread(writer);
	if (error != 0)
		soma__log(SOMA_LOG_ERROR, "a trace has no thread to write it (%s): only the ring is kept",
			  strerror(error));
	atomic_store(&writer->started, error == 0 ? RUNNING : NO_THREAD);
}

/* ---- putting ------------------------------------------------------------------------------------ */

void
soma__trace_writer_lose(struct soma__trace_writer *writer)
{
	atomic_fetch_add_explicit(&writer->lost, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&writer->dropped, 1, memory_order_relaxed);
}

/* Tries to put until there is room or the trace's patience is over. */
static bool
wait_for_room(struct soma__trace_writer *writer, struct soma__trace_event *event, uint64_t *place)
{
	struct timespec until = after_ms(writer->patience_ms);
	int error = 0;
	bool put;

	pthread_mutex_lock(&writer->waking);
	atomic_fetch_add(&writer->waiting, 1);
	while (!(put = soma__trace_ring_put(&writer->ring, event, place)) && error == 0) {
		pthread_cond_signal(&writer->wake);
		error = pthread_cond_timedwait(&writer->room, &writer->waking, &until);
	}
	atomic_fetch_sub(&writer->waiting, 1);
	pthread_mutex_unlock(&writer->waking);
	return put;
}

static bool
put_crowded(struct soma__trace_writer *writer, struct soma__trace_event *event, uint64_t *place)
{
	if (writer->patience_ms > 0 && !atomic_load_explicit(&writer->crowded, memory_order_relaxed) &&
	    atomic_load(&writer->started) != NO_THREAD) {
		if (wait_for_room(writer, event, place))
			return true;
		atomic_store_explicit(&writer->crowded, true, memory_order_relaxed);
	}
	if (event->lost > 0)
		atomic_fetch_add_explicit(&writer->lost, event->lost, memory_order_relaxed);
	soma__trace_writer_lose(writer);
	return false;
}

bool
soma__trace_writer_put(struct soma__trace_writer *writer, struct soma__trace_event *event)
{
	uint64_t place;

	if (is_child(writer) || atomic_load_explicit(&writer->closing, memory_order_acquire))
		return false;
	if (atomic_load_explicit(&writer->started, memory_order_relaxed) == NOT_STARTED)
		start_thread(writer);
	event->lost = 0;
	if (atomic_load_explicit(&writer->lost, memory_order_relaxed) != 0)
		event->lost = (uint32_t)atomic_exchange_explicit(&writer->lost, 0, memory_order_relaxed);
	if (!soma__trace_ring_put(&writer->ring, event, &place) && !put_crowded(writer, event, &place))
		return false;
	if (atomic_load_explicit(&writer->crowded, memory_order_relaxed))
		atomic_store_explicit(&writer->crowded, false, memory_order_relaxed);
	if (atomic_load(&writer->idle) || (place & (writer->ring.mask >> 2)) == 0)
		wake_writer(writer);
	return true;
}

/* ---- open, flush, close --------------------------------------------------------------------------- */

static enum soma_status
cannot_write(const struct soma__trace_writer *writer)
{
	return soma__error_text(SOMA_STATUS_IO, "a trace cannot be written: %s", strerror(writer->error));
}

enum soma_status
soma__trace_writer_flush(struct soma__trace_writer *writer)
{
	enum soma_status status = SOMA_STATUS_OK;

	if (is_child(writer))
		return soma__fail(NOT_SUPPORTED, "a trace is not written in a child after fork");
	uint64_t until = atomic_load(&writer->ring.tail);
	while (atomic_load(&writer->ring.head) < until)
		(void)drain(writer);
	pthread_mutex_lock(&writer->writing);
	if (writer->error != 0)
		status = cannot_write(writer);
	pthread_mutex_unlock(&writer->writing);
	return status;
}

static void
init_conditions(struct soma__trace_writer *writer)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&writer->wake, &monotonic);
	pthread_cond_init(&writer->room, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&writer->waking, NULL);
	pthread_mutex_init(&writer->writing, NULL);
}

static enum soma_status
open_file(struct soma__trace_writer *writer, const struct soma_trace_config *config)
{
	writer->own_fd = config->path != NULL;
	writer->fd = config->descriptor;
	if (writer->own_fd)
		writer->fd = open(config->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (writer->fd < 0)
		return soma__error_text(SOMA_STATUS_IO, "%s: cannot open for a trace: %s",
					config->path != NULL ? config->path : "a negative descriptor",
					strerror(writer->own_fd ? errno : EBADF));
	memcpy(writer->buffer, SOMA__TRACE_HEADER, sizeof SOMA__TRACE_HEADER - 1);
	writer->used = sizeof SOMA__TRACE_HEADER - 1;
	write_buffer(writer);
	if (writer->error == 0)
		return SOMA_STATUS_OK;
	if (writer->own_fd)
		close(writer->fd);
	return cannot_write(writer);
}

enum soma_status
soma__trace_writer_open(struct soma__trace_writer *writer, struct soma__arena *arena, int device,
			const struct soma_trace_config *config)
{
	enum soma_status status;

	pthread_once(&fork_once, watch_forks);
	writer->arena = arena;
	writer->device = device;
	writer->forks = atomic_load(&forks);
	writer->flush_ms = config->flush_ms != 0 ? config->flush_ms : FLUSH_MS_DEFAULT;
	writer->patience_ms = config->patience_ms != 0 ? config->patience_ms : PATIENCE_MS_DEFAULT;
	if (config->patience_ms == SOMA_TRACE_IMPATIENT)
		writer->patience_ms = 0;
	status = soma__trace_ring_init(&writer->ring, arena, config->ring_events);
	if (status != SOMA_STATUS_OK)
		return status;
	status = open_file(writer, config);
	if (status != SOMA_STATUS_OK) {
		soma__trace_ring_fini(&writer->ring, arena);
		return status;
	}
	init_conditions(writer);
	return SOMA_STATUS_OK;
}

static void
write_rest(struct soma__trace_writer *writer)
{
	(void)soma__trace_writer_flush(writer);
	pthread_mutex_lock(&writer->writing);
	say_lost(writer, atomic_exchange(&writer->lost, 0));
	write_buffer(writer);
	pthread_mutex_unlock(&writer->writing);
}

enum soma_status
soma__trace_writer_close(struct soma__trace_writer *writer)
{
	bool child = is_child(writer);

	atomic_store(&writer->closing, true);
	if (!child && atomic_load(&writer->started) == RUNNING) {
		wake_writer(writer);
		pthread_join(writer->thread, NULL);
	}
	if (!child)
		write_rest(writer);
	if (writer->own_fd && close(writer->fd) != 0 && writer->error == 0 && !child)
		write_failed(writer, errno);
	return writer->error == 0 ? SOMA_STATUS_OK : cannot_write(writer);
}

void
soma__trace_writer_fini(struct soma__trace_writer *writer)
{
	/* In a child the thread that waits is not there, and destroying would wait for it. */
	if (!is_child(writer)) {
		pthread_cond_destroy(&writer->wake);
		pthread_cond_destroy(&writer->room);
		pthread_mutex_destroy(&writer->waking);
		pthread_mutex_destroy(&writer->writing);
	}
	soma__trace_ring_fini(&writer->ring, writer->arena);
}

void
soma__trace_writer_stats(struct soma__trace_writer *writer, struct soma_trace_stats *stats)
{
	pthread_mutex_lock(&writer->writing);
	stats->events = writer->events;
	stats->live_bytes = writer->live_bytes;
	stats->peak_bytes = writer->peak_bytes;
	stats->error = writer->error;
	pthread_mutex_unlock(&writer->writing);
	stats->dropped = atomic_load(&writer->dropped);
}
