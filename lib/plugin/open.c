/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening backends, from the inside out, and closing them.  Each has an arena of its own, which
 * also holds the record of it here, and which goes with it.  No locks.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/plugin/backend.h"
#include "lib/plugin/options.h"
#include "lib/plugin/plugin.h"
#include "lib/plugin/table.h"

struct opened {
	struct soma__backend backend;
	struct soma__backend_table table;
};

/* ---- one module ---------------------------------------------------------------- */

/* A module that refuses and says nothing would leave an older error's text. */
static enum soma_status
call_open(const struct soma_backend_open *how, struct opened *opened)
{
	const struct soma__plugin *plugin = opened->backend.plugin;

	soma_error_clear();
	enum soma_status status = plugin->ops.open(how, &opened->backend.self);
	if (status != SOMA_STATUS_OK && soma_error_last()->status != status)
		soma__error_text(status, "backend %s: it cannot be opened and does not say why",
				 plugin->module.name);
	return status;
}

enum soma_status
soma__backend_query(const struct soma__backend *backend, struct soma_backend_info *info)
{
	const uint64_t groups = SOMA_BACKEND_STREAMS | SOMA_BACKEND_FILLS | SOMA_BACKEND_SCANS |
				SOMA_BACKEND_SPANS | SOMA_BACKEND_POOL | SOMA_BACKEND_EXPORTS |
				SOMA_BACKEND_PEERS | SOMA_BACKEND_USES | SOMA_BACKEND_GUARD |
				SOMA_BACKEND_STEPS;

	*info = (struct soma_backend_info){ .size = sizeof *info };
	enum soma_status status = backend->ops->query(backend->self, info);
	info->size = sizeof *info;
	info->capabilities &= ~groups | backend->plugin->groups;
	if (!(info->capabilities & SOMA_BACKEND_FILLS))
		info->capabilities &= ~(uint64_t)SOMA_BACKEND_SCANS;
	return status;
}

static enum soma_status
check_opened(struct soma__backend *backend)
{
	struct soma_backend_info info;

	enum soma_status status = soma__backend_query(backend, &info);
	if (status != SOMA_STATUS_OK)
		return status;
	backend->capabilities = info.capabilities;
	if (info.alignment >= 256 && (info.alignment & (info.alignment - 1)) == 0)
		return SOMA_STATUS_OK;
	return soma__error_text(SOMA_STATUS_ABI,
				"backend %s: it aligns blocks to %" PRIu64
				" bytes; a power of two from 256 on was expected",
				backend->plugin->module.name, info.alignment);
}

static enum soma_status
open_self(const struct soma__backend_config *config, struct opened *opened)
{
	const struct soma_backend_module *module = &opened->backend.plugin->module;
	struct soma_backend_option *options = NULL;
	size_t count;

	enum soma_status status = soma__backend_options(config, module, NULL, &count);
	if (status != SOMA_STATUS_OK)
		return status;
	if (count > 0 &&
	    (options = soma__arena_alloc(opened->table.arena, count * sizeof *options, 0)) == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	soma__backend_options(config, module, options, &count);
	const struct soma_backend_open how = {
		.size = sizeof how,
		.host = &opened->table.host,
		.device = config->device,
		.option_count = count,
		.options = options,
	};
	status = call_open(&how, opened);
	if (status != SOMA_STATUS_OK)
		return status;
	status = check_opened(&opened->backend);
	if (status != SOMA_STATUS_OK)
		module->ops->close(opened->backend.self);
	return status;
}

static void
fill_record(struct opened *opened, const struct soma__backend_config *config,
	    const struct soma__plugin *plugin, struct soma__arena *arena, struct soma__backend *inner)
{
	const struct soma_backend_inner around = {
		.size = sizeof around,
		.name = inner == NULL ? NULL : inner->plugin->module.name,
		.ops = inner == NULL ? NULL : inner->ops,
		.self = inner == NULL ? NULL : inner->self,
		.capabilities = inner == NULL ? 0 : inner->capabilities,
	};

	*opened = (struct opened){
		.backend = { .ops = &plugin->ops, .plugin = plugin, .inner = inner },
		.table = { .name = plugin->module.name,
			   .arena = arena,
			   .released = config->released,
			   .context = config->context },
	};
	soma__backend_table_init(&opened->table, inner == NULL ? NULL : &around);
}

enum soma_status
soma__backend_open_plugin(const struct soma__backend_config *config, const struct soma__plugin *plugin,
			  struct soma__backend *inner, struct soma__backend **backend)
{
	struct soma__arena *arena;

	if (plugin->module.wraps != 0 && inner == NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"the backend %s goes around another: write %s:auto or %s:NAME",
					plugin->module.name, plugin->module.name, plugin->module.name);
	if (plugin->module.wraps == 0 && inner != NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"the backend %s does not go around another (%s)", plugin->module.name,
					inner->plugin->module.name);
	enum soma_status status = soma__arena_create(&arena);
	if (status != SOMA_STATUS_OK)
		return status;
	struct opened *opened = soma__arena_alloc(arena, sizeof *opened, 0);
	status = SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (opened != NULL) {
		fill_record(opened, config, plugin, arena, inner);
		status = open_self(config, opened);
	}
	if (status != SOMA_STATUS_OK) {
		soma__arena_destroy(arena);
		return status;
	}
	*backend = &opened->backend;
	return SOMA_STATUS_OK;
}

/* ---- choosing -------------------------------------------------------------------- */

static enum soma_status
open_named(const struct soma__backend_config *config, const char *name, struct soma__backend *inner,
	   struct soma__backend **backend)
{
	const struct soma__plugin *plugin;

	enum soma_status status = soma__plugin_find(config->search, name, &plugin);
	return status == SOMA_STATUS_OK ? soma__backend_open_plugin(config, plugin, inner, backend) : status;
}

static enum soma_status
open_auto(const struct soma__backend_config *config, struct soma__backend **backend)
{
	static const char *const names[] = { "async", "sync", "host" };
	enum soma_status status = SOMA_STATUS_NOT_FOUND;

	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
		status = open_named(config, names[i], NULL, backend);
		if (status == SOMA_STATUS_OK) {
			soma__log(SOMA_LOG_INFO, "backend=auto: using %s", names[i]);
			return status;
		}
		/* A wrong option is a mistake to be told, not a reason to go on. */
		if (status == SOMA_STATUS_INVALID_VALUE)
			return status;
		soma__log(SOMA_LOG_INFO, "backend=auto: not %s: %s", names[i], soma_error_last()->text);
	}
	char last[200];
	snprintf(last, sizeof last, "%s", soma_error_last()->text);
	return soma__error_text(
		status, "backend=auto: none of async, sync and host can be opened; the last: %s", last);
}

/* `name` is the rest of the configured one from some part on. */
static enum soma_status
open_chain(const struct soma__backend_config *config, const char *name, struct soma__backend **backend)
{
	struct soma__backend *inner = NULL;
	char first[64];
	size_t length = strcspn(name, ":");

	if (length == 0 || length >= sizeof first)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"\"%.63s\" is no backend: NAME or NAME:NAME was expected",
					config->name);
	memcpy(first, name, length);
	first[length] = '\0';
	if (name[length] == '\0')
		return strcmp(first, "auto") == 0 ? open_auto(config, backend)
						  : open_named(config, first, NULL, backend);
	enum soma_status status = open_chain(config, name + length + 1, &inner);
	if (status != SOMA_STATUS_OK)
		return status;
	status = open_named(config, first, inner, backend);
	if (status != SOMA_STATUS_OK)
		soma__backend_close(inner);
	return status;
}

enum soma_status
soma__backend_open(const struct soma__backend_config *config, struct soma__backend **backend)
{
	enum soma_status status = soma__backend_options_check(config);

	return status == SOMA_STATUS_OK ? open_chain(config, config->name, backend) : status;
}

void
soma__backend_close(struct soma__backend *backend)
{
	while (backend != NULL) {
		struct opened *opened = (struct opened *)(void *)backend;
		struct soma__backend *inner = backend->inner;
		backend->ops->close(backend->self);
		soma__arena_destroy(opened->table.arena);
		backend = inner;
	}
}

char *
soma__backend_name(const struct soma__backend *backend, char *buffer, size_t size)
{
	size_t length = 0;

	buffer[0] = '\0';
	for (const struct soma__backend *at = backend; at != NULL && length < size; at = at->inner)
		length += (size_t)snprintf(buffer + length, size - length, "%s%s", length > 0 ? ":" : "",
					   at->plugin->module.name);
	return buffer;
}
