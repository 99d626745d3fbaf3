/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default and the current pool of each device.  `mutex` protects the list, and is held over making a default
 * pool, so that a device has one; not over what may wait at the end of one.  A pool's own mutex may be taken within it.
 */
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/pool/pool.h"
#include "lib/resource/resource.h"

struct device {
	struct device *next;
	int ordinal;
	struct soma_pool *standard; /* the default; NULL: none */
	struct soma_pool *current;  /* NULL: the default */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct device *devices;

static struct device **
find(int ordinal)
{
	struct device **at = &devices;

	while (*at != NULL && (*at)->ordinal != ordinal)
		at = &(*at)->next;
	return at;
}

/* NULL without memory. */
static struct device *
find_or_make(int ordinal)
{
	struct device **at = find(ordinal);

	if (*at == NULL) {
		*at = calloc(1, sizeof **at);
		if (*at == NULL)
			(void)soma__fail(OUT_OF_HOST_MEMORY, "no memory for a device's entry");
		else
			(*at)->ordinal = ordinal;
	}
	return *at;
}

static void
forget_if_empty(struct device **at)
{
	struct device *device = *at;

	if (device == NULL || device->standard != NULL || device->current != NULL)
		return;
	*at = device->next;
	free(device);
}

static enum soma_status
check_ordinal(int ordinal)
{
	if (ordinal >= 0)
		return SOMA_STATUS_OK;
	return soma__fail(INVALID_VALUE, "device %" PRId64 ": expected 0 or more", (uint64_t)ordinal);
}

/* ---- the default ------------------------------------------------------------------------ */

static void end_default_over(struct soma_resource *resource);

/* Over a resource it ends before that one's owner is done with the stack. */
static enum soma_status
make_default(struct device *device, struct soma_resource *resource)
{
	const struct soma_pool_config config = { .size = sizeof config, .device = device->ordinal };
	enum soma_status status = soma_pool_create(&config, resource, &device->standard);

	if (status != SOMA_STATUS_OK)
		return status;
	device->standard->is_default = true;
	if (resource != NULL)
		soma__resource_at_end(resource, end_default_over);
	return SOMA_STATUS_OK;
}

/* Any resource of the stack will do. */
static bool
is_over(const struct soma_pool *pool, const struct soma_resource *resource)
{
	return pool->resource != NULL && pool->resource->terminal == resource->terminal;
}

static enum soma_status
default_locked(int ordinal, struct soma_resource *resource, struct soma_pool **pool)
{
	struct device *device = find_or_make(ordinal);
	enum soma_status status = SOMA_STATUS_OK;

	if (device == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (device->standard == NULL)
		status = make_default(device, resource);
	else if (resource != NULL && !is_over(device->standard, resource))
		status = soma__fail(INVALID_VALUE,
				    "the default pool of device %" PRId64 " is over another resource",
				    (uint64_t)ordinal);
	if (status == SOMA_STATUS_OK)
		*pool = device->standard;
	else
		forget_if_empty(find(ordinal));
	return status;
}

enum soma_status
soma_pool_default(int ordinal, struct soma_resource *resource, struct soma_pool **pool)
{
	enum soma_status status = check_ordinal(ordinal);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&mutex);
	status = default_locked(ordinal, resource, pool);
	pthread_mutex_unlock(&mutex);
	return status;
}

/* Under the mutex: from now on the device has none, and nothing is allocated from it.  NULL: it had none. */
static struct soma_pool *
take_default(struct device **at)
{
	struct soma_pool *pool = *at != NULL ? (*at)->standard : NULL;

	if (pool == NULL)
		return NULL;
	(*at)->standard = NULL;
	if ((*at)->current == pool)
		(*at)->current = NULL;
	pool->is_default = false;
	(void)soma__pool_close(pool);
	forget_if_empty(at);
	return pool;
}

enum soma_status
soma_pool_end_default(int ordinal)
{
	struct soma_pool *pool;
	enum soma_status status = check_ordinal(ordinal);

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&mutex);
	pool = take_default(find(ordinal));
	pthread_mutex_unlock(&mutex);
	if (pool == NULL)
		return soma__fail(NOT_FOUND, "device %" PRId64 " has no default pool", (uint64_t)ordinal);
	soma__pool_end(pool);
	return SOMA_STATUS_OK;
}

/* As soma_pool_end_default(), if the default pool of the device is still over this stack. */
static void
end_default_over(struct soma_resource *resource)
{
	struct soma_pool *pool = NULL;
	struct device **at;

	pthread_mutex_lock(&mutex);
	at = find(soma_resource_device(resource));
	if (*at != NULL && (*at)->standard != NULL && is_over((*at)->standard, resource))
		pool = take_default(at);
	pthread_mutex_unlock(&mutex);
	if (pool != NULL)
		soma__pool_end(pool);
}

/* ---- the current one ----------------------------------------------------------------------- */

enum soma_status
soma_pool_current(int ordinal, struct soma_pool **pool)
{
	enum soma_status status = check_ordinal(ordinal);
	struct soma_pool *found = NULL;
	struct device *device;

	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&mutex);
	device = *find(ordinal);
	if (device != NULL)
		found = device->current != NULL ? device->current : device->standard;
	pthread_mutex_unlock(&mutex);
	if (found == NULL)
		return soma__fail(NOT_FOUND, "device %" PRId64 " has neither a current nor a default pool",
				  (uint64_t)ordinal);
	*pool = found;
	return SOMA_STATUS_OK;
}

/* Under the mutex. */
static enum soma_status
set_current(int ordinal, struct soma_pool *pool)
{
	struct device *device;
	bool destroyed = false;

	if (pool != NULL) {
		soma__pool_lock(pool);
		destroyed = pool->destroyed;
		soma__pool_unlock(pool);
	}
	if (destroyed)
		return soma__fail(INVALID_VALUE, "a pool that was destroyed cannot be the current one");
	device = pool != NULL ? find_or_make(ordinal) : *find(ordinal);
	if (device == NULL)
		return pool != NULL ? SOMA_STATUS_OUT_OF_HOST_MEMORY : SOMA_STATUS_OK;
	device->current = pool;
	forget_if_empty(find(ordinal));
	return SOMA_STATUS_OK;
}

enum soma_status
soma_pool_set_current(int ordinal, struct soma_pool *pool)
{
	enum soma_status status = check_ordinal(ordinal);

	if (status == SOMA_STATUS_OK && pool != NULL && pool->device != ordinal)
		status = soma__fail(INVALID_VALUE, "a pool of device %" PRId64 " for device %" PRId64,
				    (uint64_t)pool->device, (uint64_t)ordinal);
	if (status != SOMA_STATUS_OK)
		return status;
	pthread_mutex_lock(&mutex);
	status = set_current(ordinal, pool);
	pthread_mutex_unlock(&mutex);
	return status;
}

/* Together under the mutex, so that nobody makes a destroyed pool the current one. */
static enum soma_status
close_locked(struct soma_pool *pool)
{
	struct device **at = find(pool->device);
	enum soma_status status;

	if (pool->is_default)
		return soma__fail(INVALID_VALUE, "the default pool of device %" PRId64 " cannot be destroyed",
				  (uint64_t)pool->device);
	status = soma__pool_close(pool);
	if (status == SOMA_STATUS_OK && *at != NULL && (*at)->current == pool) {
		(*at)->current = NULL;
		forget_if_empty(at);
	}
	return status;
}

enum soma_status
soma__registry_close(struct soma_pool *pool)
{
	enum soma_status status;

	pthread_mutex_lock(&mutex);
	status = close_locked(pool);
	pthread_mutex_unlock(&mutex);
	return status;
}
