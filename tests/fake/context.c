/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primary contexts, one a device, counted; which is current on a thread; peers.
 * The handle of a device's context stays the same for ever.
 */
#include "tests/fake/state.h"

struct fake_context *
context_current(void)
{
	struct thread *self = thread_self();

	return self->depth != 0 ? self->stack[self->depth - 1] : NULL;
}

static CUresult
retain(CUcontext *context, CUdevice device)
{
	struct device *d = device_at(device);

	if (context == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (d->primary->refs++ == 0)
		d->primary->active = true;
	*context = d->primary;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CALL(cuDevicePrimaryCtxRetain, retain(context, device));
}

/* What belongs to the context goes with it; what is still there is a leak of the program's. */
static void
drop_handles(struct fake_context *context, enum kind kind)
{
	for (struct handle *h = handle_first(kind); h != NULL; h = h->next) {
		if (!h->live || h->context != context)
			continue;
		if (kind != KIND_FUNCTION)
			finding(FAKE_FOUND_LEAK, "%s lost with its context",
				kind == KIND_STREAM  ? "stream"
				: kind == KIND_EVENT ? "event"
						     : "module");
		if (kind == KIND_EVENT)
			event_fini((struct fake_event *)(void *)h);
		if (kind == KIND_MODULE)
			module_fini((struct fake_module *)(void *)h);
		handle_drop(h);
	}
}

static void
drop_memory(struct fake_context *context)
{
	struct node *node = tree_from(world.memory, 0, 0);

	while (node != NULL) {
		struct memory *m = TREE_OF(node, struct memory);
		uint64_t next = m->address + 1;
		if (!m->freed && m->context == context &&
		    (m->kind == MEMORY_SYNC || m->kind == MEMORY_HOST)) {
			finding(FAKE_FOUND_LEAK, "%llu bytes lost with their context",
				(unsigned long long)m->bytes);
			memory_free_now(m->address);
		}
		node = tree_from(world.memory, next, 0);
	}
}

/* Waits for its work, but when that can no longer be. */
CUresult
context_destroy(struct fake_context *context)
{
	drive_context(context);
	drop_memory(context);
	drop_handles(context, KIND_FUNCTION);
	drop_handles(context, KIND_MODULE);
	drop_handles(context, KIND_EVENT);
	drop_handles(context, KIND_STREAM);
	for (struct thread *t = world.threads; t != NULL; t = t->next)
		t->own[context->device] = NULL;
	for (struct lane *lane = world.lanes; lane != NULL; lane = lane->next)
		if (lane->context == context && lane->in_use)
			lane_close(lane);
	context->legacy = NULL;
	context->peers = 0;
	context->deferred = CUDA_SUCCESS;
	pools_synchronized(true);
	return CUDA_SUCCESS;
}

static CUresult
release(CUdevice device)
{
	struct device *d = device_at(device);

	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (d->primary->refs == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--d->primary->refs != 0)
		return CUDA_SUCCESS;
	context_destroy(d->primary);
	d->primary->active = false;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	CALL(cuDevicePrimaryCtxRelease_v2, release(device));
}

static CUresult
reset(CUdevice device)
{
	struct device *d = device_at(device);

	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	return d->primary->active ? context_destroy(d->primary) : CUDA_SUCCESS;
}

EXPORT CUresult
cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CALL(cuDevicePrimaryCtxReset_v2, reset(device));
}

static CUresult
get_state(CUdevice device, unsigned *flags, int *active)
{
	struct device *d = device_at(device);

	if (d == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags == NULL || active == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 0;
	*active = d->primary->active;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	CALL(cuDevicePrimaryCtxGetState, get_state(device, flags, active));
}

/* ---- the stack of a thread ---------------------------------------------------------- */

static CUresult
get_current(CUcontext *context)
{
	if (context == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*context = context_current();
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuCtxGetCurrent(CUcontext *context)
{
	CALL(cuCtxGetCurrent, get_current(context));
}

static CUresult
check_context(CUcontext context)
{
	if (handle_find(context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	return context->active ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult
push(CUcontext context)
{
	struct thread *self = thread_self();
	CUresult result = check_context(context);

	if (result != CUDA_SUCCESS)
		return result;
	if (self->depth == CONTEXT_STACK)
		return CUDA_ERROR_OPERATING_SYSTEM;
	self->stack[self->depth++] = context;
	return CUDA_SUCCESS;
}

/* Replaces the top; NULL takes it away. */
static CUresult
set_current(CUcontext context)
{
	struct thread *self = thread_self();
	CUresult result = context != NULL ? check_context(context) : CUDA_SUCCESS;

	if (result != CUDA_SUCCESS)
		return result;
	if (self->depth != 0)
		self->depth--;
	return context != NULL ? push(context) : CUDA_SUCCESS;
}

EXPORT CUresult
cuCtxSetCurrent(CUcontext context)
{
	CALL(cuCtxSetCurrent, set_current(context));
}

EXPORT CUresult
cuCtxPushCurrent_v2(CUcontext context)
{
	CALL(cuCtxPushCurrent_v2, push(context));
}

static CUresult
pop(CUcontext *context)
{
	struct thread *self = thread_self();

	if (self->depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	self->depth--;
	if (context != NULL)
		*context = self->stack[self->depth];
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuCtxPopCurrent_v2(CUcontext *context)
{
	CALL(cuCtxPopCurrent_v2, pop(context));
}

static CUresult
get_device(CUdevice *device, CUcontext context)
{
	if (device == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context == NULL)
		context = context_current();
	if (context == NULL || handle_find(context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = context->device;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuCtxGetDevice(CUdevice *device)
{
	CALL(cuCtxGetDevice, get_device(device, NULL));
}

EXPORT CUresult
cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	CALL(cuCtxGetDevice_v2, get_device(device, context));
}

static CUresult
get_id(CUcontext context, unsigned long long *id)
{
	if (id == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (context == NULL)
		context = context_current();
	if (context == NULL || handle_find(context, KIND_CONTEXT) == NULL)
		return CUDA_ERROR_INVALID_CONTEXT;
	*id = context->id;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuCtxGetId(CUcontext context, unsigned long long *id)
{
	CALL(cuCtxGetId, get_id(context, id));
}

static CUresult
synchronize(CUcontext context)
{
	if (context == NULL)
		context = context_current();
	CUresult result = check_context(context);
	if (result == CUDA_SUCCESS)
		result = captures_conflict(context);
	if (result != CUDA_SUCCESS)
		return result;
	drive_context(context);
	for (struct lane *lane = world.lanes; lane != NULL; lane = lane->next)
		if (lane->context == context)
			lane_seen(lane, lane->executed, NULL, 0, true);
	pools_synchronized(true);
	if (context->sticky != CUDA_SUCCESS)
		return context->sticky;
	result = context->deferred;
	context->deferred = CUDA_SUCCESS;
	return result;
}

EXPORT CUresult
cuCtxSynchronize(void)
{
	CALL(cuCtxSynchronize, synchronize(NULL));
}

EXPORT CUresult
cuCtxSynchronize_v2(CUcontext context)
{
	CALL(cuCtxSynchronize_v2, synchronize(context));
}

static CUresult
get_info(size_t *free_bytes, size_t *total)
{
	struct device *d = &world.devices[context_current()->device];

	if (free_bytes == NULL || total == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*total = d->total;
	*free_bytes = d->total > d->taken ? d->total - d->taken : 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	CALL(cuMemGetInfo_v2, get_info(free_bytes, total));
}

/* ---- peers --------------------------------------------------------------------------- */

static CUresult
set_peer(CUcontext peer, unsigned flags, bool enable)
{
	struct fake_context *self = context_current();
	CUresult result = check_context(peer);

	if (result != CUDA_SUCCESS)
		return result;
	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (peer->device == self->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (enable && (world.devices[self->device].peers >> peer->device & 1) == 0)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bool enabled = (self->peers >> peer->device & 1) != 0;
	if (enabled == enable)
		return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	self->peers ^= 1u << peer->device;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	CALL(cuCtxEnablePeerAccess, set_peer(peer, flags, true));
}

EXPORT CUresult
cuCtxDisablePeerAccess(CUcontext peer)
{
	CALL(cuCtxDisablePeerAccess, set_peer(peer, 0, false));
}
