/* SPDX-License-Identifier: Apache-2.0 */
/* What backends may ask of the library.  No locks of its own. */
#include "config.h"

#include <string.h>

#include "lib/plugin/table.h"

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/size.h"

_Static_assert((int)SOMA_BACKEND_LOG_DEBUG == (int)SOMA_LOG_DEBUG, "levels are passed on as they are");

static void
table_log(void *context, enum soma_backend_log_level level, const char *text)
{
	const struct soma__backend_table *table = context;

	soma__log((enum soma_log_level)level, "backend %s: %s", table->name, text);
}

/* Modules may name themselves, too. */
static const char *
without_name(const struct soma__backend_table *table, const char *text)
{
	size_t length = strlen(table->name);

	return strncmp(text, table->name, length) == 0 && strncmp(text + length, ": ", 2) == 0 ? text + length + 2
											       : text;
}

static enum soma_status
table_fail(void *context, const struct soma_backend_error *error)
{
	const struct soma__backend_table *table = context;
	const char *when = (error->flags & SOMA_BACKEND_ERROR_DEFERRED) != 0 ? "earlier work failed: " : "";
	const char *after =
		(error->flags & SOMA_BACKEND_ERROR_STICKY) != 0 ? "; the device cannot be used any more" : "";

	soma__error_text(error->status, "backend %s: %s%s%s", table->name, when,
			 error->text == NULL ? soma_status_text(error->status) : without_name(table, error->text),
			 after);
	soma__error_sizes(error->requested, error->current, error->remaining, error->limit);
	soma__error_driver(error->driver_code);
	/* Told once, and perhaps to somebody who only looks whether work is over and has nobody to tell. */
	if (error->flags & SOMA_BACKEND_ERROR_DEFERRED)
		soma__log(SOMA_LOG_ERROR, "%s", soma_error_last()->text);
	return error->status;
}

static void *
table_alloc(void *context, size_t size, size_t alignment)
{
	return soma__arena_alloc(((struct soma__backend_table *)context)->arena, size, alignment);
}

static void
table_free(void *context, void *memory, size_t size)
{
	soma__arena_free(((struct soma__backend_table *)context)->arena, memory, size);
}

/* The name of a module's arena is only a name: it is ours. */
static enum soma_status
table_arena_create(void *context, struct soma_backend_arena **arena)
{
	struct soma__arena *created;

	(void)context;
	enum soma_status status = soma__arena_create(&created);
	if (status == SOMA_STATUS_OK)
		*arena = (struct soma_backend_arena *)created;
	return status;
}

static void
table_arena_destroy(struct soma_backend_arena *arena)
{
	soma__arena_destroy((struct soma__arena *)arena);
}

static void *
table_arena_alloc(struct soma_backend_arena *arena, size_t size, size_t alignment)
{
	return soma__arena_alloc((struct soma__arena *)arena, size, alignment);
}

static void
table_arena_free(struct soma_backend_arena *arena, void *memory, size_t size)
{
	soma__arena_free((struct soma__arena *)arena, memory, size);
}

static enum soma_status
table_parse_size(void *context, const char *text, uint64_t *bytes)
{
	const char *problem = soma__size_parse(text, bytes);
	(void)context;

	if (problem != NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "\"%.64s\" %s", text, problem);
	return SOMA_STATUS_OK;
}

static void
table_released(void *context, uint64_t ptr, uint64_t size)
{
	const struct soma__backend_table *table = context;

	if (table->released != NULL)
		table->released(table->context, ptr, size);
}

void
soma__backend_table_init(struct soma__backend_table *table, const struct soma_backend_inner *inner)
{
	if (inner != NULL)
		table->inner = *inner;
	table->host = (struct soma_backend_host){
		.size = sizeof table->host,
		.context = table,
		.log = table_log,
		.fail = table_fail,
		.alloc = table_alloc,
		.free = table_free,
		.arena_create = table_arena_create,
		.arena_destroy = table_arena_destroy,
		.arena_alloc = table_arena_alloc,
		.arena_free = table_arena_free,
		.parse_size = table_parse_size,
		.released = table_released,
		.inner = inner != NULL ? &table->inner : NULL,
	};
}
