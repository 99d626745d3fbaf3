/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soma_runtime_for_device().  A device's entry is there while somebody has its runtime, opens or closes it, or
 * waits for one who does.  `mutex` covers everything here and is held over no call.
 */
#include "lib/runtime/devices.h"

#include <pthread.h>
#include <stdlib.h>

#include "lib/base/error.h"

struct device {
	struct device *next;
	int number;
	unsigned users; /* threads that are in this file for it */
	bool busy;      /* its runtime is being opened or closed */
	struct soma_runtime *runtime;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct device *devices;

/* All under the mutex from here on. */
static struct device *
use_device(int number)
{
	struct device *device = devices;

	while (device != NULL && device->number != number)
		device = device->next;
	if (device == NULL) {
		device = calloc(1, sizeof *device);
		if (device == NULL)
			return NULL;
		device->number = number;
		device->next = devices;
		devices = device;
	}
	device->users++;
	return device;
}

static void
leave_device(struct device *device)
{
	struct device **at = &devices;

	device->users--;
	if (device->users > 0 || device->runtime != NULL)
		return;
	while (*at != device)
		at = &(*at)->next;
	*at = device->next;
	free(device);
}

/* Lets go of the mutex meanwhile.  Others wait, and if it fails, try for themselves. */
static enum soma_status
open_device(struct device *device)
{
	struct soma_runtime *runtime;
	enum soma_status status;

	device->busy = true;
	pthread_mutex_unlock(&mutex);
	status = soma__runtime_open_device(device->number, &runtime);
	pthread_mutex_lock(&mutex);
	device->busy = false;
	if (status == SOMA_STATUS_OK)
		device->runtime = runtime;
	pthread_cond_broadcast(&changed);
	return status;
}

static enum soma_status
get_device(struct device *device, struct soma_runtime **runtime)
{
	enum soma_status status = SOMA_STATUS_OK;

	while (device->busy)
		pthread_cond_wait(&changed, &mutex);
	if (device->runtime != NULL)
		soma_runtime_retain(device->runtime);
	else
		status = open_device(device);
	if (status == SOMA_STATUS_OK)
		*runtime = device->runtime;
	return status;
}

enum soma_status
soma_runtime_for_device(int number, struct soma_runtime **runtime)
{
	enum soma_status status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	struct device *device;

	if (number < 0)
		return soma__fail(INVALID_VALUE, "device %" PRId64 ": expected 0 or more", (uint64_t)number);
	pthread_mutex_lock(&mutex);
	device = use_device(number);
	if (device != NULL) {
		status = get_device(device, runtime);
		leave_device(device);
	}
	pthread_mutex_unlock(&mutex);
	return device != NULL ? status : soma__fail(OUT_OF_HOST_MEMORY, "no memory for a device");
}

/* Under the mutex the count cannot rise from 0 again. */
void
soma__devices_release(struct soma_runtime *runtime)
{
	struct device *device;

	pthread_mutex_lock(&mutex);
	if (atomic_fetch_sub_explicit(&runtime->references, 1, memory_order_acq_rel) == 1) {
		device = use_device((int)runtime->config.device);
		device->runtime = NULL;
		device->busy = true;
		pthread_mutex_unlock(&mutex);
		soma__runtime_close(runtime);
		pthread_mutex_lock(&mutex);
		device->busy = false;
		pthread_cond_broadcast(&changed);
		leave_device(device);
	}
	pthread_mutex_unlock(&mutex);
}
