/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guards that are open: a forked child disables them (its device and its threads are
 * not there), and a process that exits without closing them gets its leaks printed.
 *
 * `list_lock` before any guard's lock; all of them are held across a fork, so that the child
 * finds them free and the records whole.
 */
#include <stdlib.h>

#include "backends/guard/guard.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soma_backend *open_guards; /* list_lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
before_fork(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct soma_backend *g = open_guards; g != NULL; g = g->next_open) {
		pthread_mutex_lock(&g->probe_lock);
		pthread_mutex_lock(&g->lock);
		pthread_mutex_lock(&g->stacks.mutex);
		pthread_mutex_lock(&g->reporter.mutex);
	}
}

static void
unlock_all(bool child)
{
	for (struct soma_backend *g = open_guards; g != NULL; g = g->next_open) {
		if (child)
			atomic_store(&g->disabled, true);
		pthread_mutex_unlock(&g->reporter.mutex);
		pthread_mutex_unlock(&g->stacks.mutex);
		pthread_mutex_unlock(&g->lock);
		pthread_mutex_unlock(&g->probe_lock);
	}
	pthread_mutex_unlock(&list_lock);
}

static void
after_fork_parent(void)
{
	unlock_all(false);
}

static void
after_fork_child(void)
{
	unlock_all(true);
}

/* The inner backend, and the program's listener, may be gone already.  Other threads may run still: a guard that one of
 * them closes meanwhile stays until it was looked at. */
static void
at_exit(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct soma_backend *g = open_guards; g != NULL; g = g->next_open) {
		if (guard_is_idle(g))
			continue;
		pthread_mutex_lock(&g->reporter.mutex);
		g->reporter.listener = NULL;
		g->reporter.listened = false;
		pthread_mutex_unlock(&g->reporter.mutex);
		leak_report(g);
	}
	pthread_mutex_unlock(&list_lock);
}

static void
prepare(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
	atexit(at_exit);
}

void
fork_enter(struct soma_backend *g)
{
	if (g->off)
		return;
	pthread_once(&once, prepare);
	pthread_mutex_lock(&list_lock);
	g->next_open = open_guards;
	open_guards = g;
	pthread_mutex_unlock(&list_lock);
}

void
fork_leave(struct soma_backend *g)
{
	pthread_mutex_lock(&list_lock);
	struct soma_backend **at = &open_guards;
	while (*at != NULL && *at != g)
		at = &(*at)->next_open;
	if (*at == g)
		*at = g->next_open;
	pthread_mutex_unlock(&list_lock);
}
