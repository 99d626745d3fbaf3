/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a terminal and taking it apart.  Nothing else runs on it meanwhile, so no locks.
 */
#include <inttypes.h>

#include "lib/base/log.h"
#include "lib/resource/terminal.h"
#include "lib/resource/uses.h"

static struct soma__terminal *
terminal_of(struct soma_resource *resource)
{
	return (struct soma__terminal *)resource;
}

static void
close_terminal(struct soma_resource *resource)
{
	struct soma__terminal *terminal = terminal_of(resource);
	struct soma_ledger sum;

	(void)soma__terminal_reap(terminal);
	soma__ledger_sum(&terminal->ledger, &sum);
	if (sum.live_count > 0)
		soma__log(SOMA_LOG_WARNING,
			  "device %d: %" PRIu64 " blocks with %" PRIu64
			  " bytes are given up with their resource",
			  terminal->device, sum.live_count, sum.live_bytes);
}

/* The backend's own close gives its memory back; the arena takes the records. */
static void
destroy_terminal(struct soma_resource *resource)
{
	struct soma__terminal *terminal = terminal_of(resource);
	struct soma__arena *arena = terminal->arena;
	void (*closed)(void *context) = terminal->closed;
	void *context = terminal->context;

	if (terminal->closing != NULL)
		terminal->closing(context);
	soma__uses_drop_all(terminal);
	soma__streams_fini(&terminal->streams);
	soma__events_fini(&terminal->events);
	soma__kept_fini(&terminal->kept);
	soma__ledger_fini(&terminal->ledger);
	pthread_mutex_destroy(&terminal->spare);
	pthread_mutex_destroy(&terminal->pressing);
	pthread_mutex_destroy(&terminal->stack);
	soma__arena_destroy(arena);
	if (closed != NULL)
		closed(context);
}

static const struct soma__resource_ops terminal_ops = {
	.materialize = soma__terminal_materialize,
	.close = close_terminal,
	.destroy = destroy_terminal,
};

static enum soma_status
init_parts(struct soma__terminal *terminal, const struct soma_backend_inner *backend)
{
	enum soma_status status = soma__ledger_init(&terminal->ledger, terminal->arena);

	if (status == SOMA_STATUS_OK && soma__terminal_can(terminal, SOMA_BACKEND_KEEPS_FREED))
		status = soma__kept_init(&terminal->kept, terminal->arena);
	if (status != SOMA_STATUS_OK)
		return status;
	soma__events_init(&terminal->events, backend, terminal->arena);
	return soma__streams_init(&terminal->streams, &terminal->events, terminal->arena,
				  soma__terminal_can(terminal, SOMA_BACKEND_STREAMS));
}

static enum soma_status
init_terminal(struct soma__terminal *terminal, const struct soma__terminal_config *config)
{
	struct soma_backend_info info = { .size = sizeof info };
	enum soma_status status = config->backend.ops->query(config->backend.self, &info);

	if (status != SOMA_STATUS_OK)
		return status;
	terminal->base.ops = &terminal_ops;
	terminal->base.terminal = terminal;
	atomic_init(&terminal->base.references, 1);
	terminal->ops = config->backend.ops;
	terminal->self = config->backend.self;
	terminal->closing = config->closing;
	terminal->closed = config->closed;
	terminal->context = config->context;
	terminal->device = config->device;
	terminal->capabilities = config->capabilities != 0 ? config->capabilities : info.capabilities;
	terminal->ordered = soma__terminal_can(terminal, SOMA_BACKEND_STREAM_ORDERED | SOMA_BACKEND_STREAMS);
	terminal->keeps = soma__terminal_can(terminal, SOMA_BACKEND_KEEPS_FREED);
	terminal->records = terminal->ordered && !terminal->keeps && terminal->ops->free_recorded != NULL;
	terminal->names = soma__terminal_can(terminal, SOMA_BACKEND_USES);
	terminal->alignment = info.alignment;
	pthread_mutex_init(&terminal->spare, NULL);
	pthread_mutex_init(&terminal->pressing, NULL);
	pthread_mutex_init(&terminal->stack, NULL);
	return init_parts(terminal, &config->backend);
}

enum soma_status
soma__terminal_create(const struct soma__terminal_config *config, struct soma_resource **resource)
{
	struct soma__arena *arena;
	struct soma__terminal *terminal;
	enum soma_status status = soma__arena_create(&arena);

	if (status != SOMA_STATUS_OK)
		return status;
	terminal = soma__arena_calloc(arena, sizeof *terminal, 128);
	if (terminal == NULL) {
		soma__arena_destroy(arena);
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	}
	terminal->arena = arena;
	status = init_terminal(terminal, config);
	if (status != SOMA_STATUS_OK) {
		soma__arena_destroy(arena);
		return status;
	}
	*resource = &terminal->base;
	return SOMA_STATUS_OK;
}
