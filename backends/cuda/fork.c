/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forked child has no driver, and its parent's threads may have had any list in hand: there an open backend is lost
 * without a call of the driver, and nothing is given back, which goes with the process.
 *
 * `devices` covers the list of open backends; it is held across a fork and over nothing else.
 */
#include "backends/cuda/device.h"

static pthread_mutex_t devices = PTHREAD_MUTEX_INITIALIZER;
static struct soma_backend *open_devices;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void
before_fork(void)
{
	pthread_mutex_lock(&devices);
}

static void
after_fork_parent(void)
{
	pthread_mutex_unlock(&devices);
}

static void
after_fork_child(void)
{
	for (struct soma_backend *self = open_devices; self != NULL; self = self->next_open) {
		self->forked = true;
		atomic_store(&self->lost, CUDA_ERROR_NOT_INITIALIZED);
	}
	pthread_mutex_unlock(&devices);
}

static void
prepare(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void
cuda_fork_enter(struct soma_backend *self)
{
	pthread_once(&once, prepare);
	pthread_mutex_lock(&devices);
	self->next_open = open_devices;
	open_devices = self;
	pthread_mutex_unlock(&devices);
}

void
cuda_fork_leave(struct soma_backend *self)
{
	struct soma_backend **at = &open_devices;

	pthread_mutex_lock(&devices);
	while (*at != self)
		at = &(*at)->next_open;
	*at = self->next_open;
	pthread_mutex_unlock(&devices);
}
