/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a backend and its terminal together.  The backend may call released() as soon as it is open,
 * so what it calls is there before the terminal is.  No locks.
 */
#include "lib/resource/open.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/resource/terminal.h"

/* Before what it keeps. */
struct kept {
	struct kept *next;
	max_align_t memory[];
};

struct opened {
	struct soma__backend *backend;
	struct kept *_Atomic kept;
	/* NULL until it is made: nothing can have been freed before; and from when it is taken apart on. */
	struct soma_resource *_Atomic terminal;
};

static void
tell_released(void *context, uint64_t ptr, uint64_t size)
{
	struct opened *opened = context;

	soma__terminal_released(atomic_load(&opened->terminal), ptr, size);
}

/* A backend that calls released() from within close, which it must not, is not listened to. */
static void
stop_listening(void *context)
{
	struct opened *opened = context;

	atomic_store(&opened->terminal, NULL);
}

static void
close_backend(void *context)
{
	struct opened *opened = context;
	struct kept *next;

	soma__backend_close(opened->backend);
	for (struct kept *kept = atomic_load(&opened->kept); kept != NULL; kept = next) {
		next = kept->next;
		free(kept);
	}
	free(opened);
}

static enum soma_status
open_both(struct opened *opened, const struct soma__backend_config *config)
{
	struct soma__backend_config listening = *config;
	struct soma__terminal_config terminal = {
		.backend = { .size = sizeof terminal.backend },
		.device = config->device,
		.closing = stop_listening,
		.closed = close_backend,
		.context = opened,
	};
	struct soma_resource *made;
	enum soma_status status;

	listening.released = tell_released;
	listening.context = opened;
	status = soma__backend_open(&listening, &opened->backend);
	if (status != SOMA_STATUS_OK)
		return status;
	terminal.backend.ops = opened->backend->ops;
	terminal.backend.self = opened->backend->self;
	terminal.capabilities = opened->backend->capabilities;
	status = soma__terminal_create(&terminal, &made);
	if (status != SOMA_STATUS_OK)
		soma__backend_close(opened->backend);
	else
		atomic_store(&opened->terminal, made);
	return status;
}

enum soma_status
soma__resource_open(const struct soma__backend_config *config, struct soma_resource **resource)
{
	struct opened *opened = calloc(1, sizeof *opened);
	enum soma_status status;

	if (opened == NULL)
		return soma__fail(OUT_OF_HOST_MEMORY, "no memory for a backend");
	status = open_both(opened, config);
	if (status != SOMA_STATUS_OK) {
		free(opened);
		return status;
	}
	*resource = atomic_load(&opened->terminal);
	return SOMA_STATUS_OK;
}

static struct opened *
opened_of(struct soma_resource *resource)
{
	return resource->terminal->context;
}

struct soma__backend *
soma__resource_backend(struct soma_resource *resource)
{
	return opened_of(resource)->backend;
}

void *
soma__resource_keep(struct soma_resource *resource, size_t size)
{
	struct kept *kept = malloc(sizeof *kept + size);

	if (kept == NULL) {
		soma__fail(OUT_OF_HOST_MEMORY, "no memory for what a backend looks at when it is closed");
		return NULL;
	}
	kept->next = atomic_load(&opened_of(resource)->kept);
	while (!atomic_compare_exchange_weak(&opened_of(resource)->kept, &kept->next, kept))
		;
	return kept->memory;
}

struct soma_backend_stream *
soma__resource_stream(struct soma_resource *resource, uint64_t stream)
{
	const struct soma__stream *found = soma__stream_find(&resource->terminal->streams, stream);

	return found != NULL && !atomic_load(&found->destroyed) ? found->handle : NULL;
}
