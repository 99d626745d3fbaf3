/* SPDX-License-Identifier: Apache-2.0 */
/* Listing modules with what each can do here.  No state; a module is opened only to ask it. */
#include "config.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/plugin/backend.h"
#include "lib/plugin/plugin.h"
#include "lib/plugin/table.h"

struct listing {
	/* Neither: only the names are wanted. */
	void (*visit)(void *context, const struct soma__plugin_seen *seen);
	void (*load)(void *context, const struct soma__plugin *plugin); /* instead: nothing is opened */
	void *context;
	char (*names)[64]; /* that were seen */
	size_t count;
	enum soma_status status;
};

static bool
was_seen(const struct listing *listing, const char *name)
{
	for (size_t i = 0; i < listing->count; i++)
		if (strcmp(listing->names[i], name) == 0)
			return true;
	return false;
}

static bool
remember(struct listing *listing, const char *name)
{
	char(*names)[64] = realloc(listing->names, (listing->count + 1) * sizeof *names);

	if (names == NULL) {
		listing->status =
			soma__error_text(SOMA_STATUS_OUT_OF_HOST_MEMORY, "no memory for a list of modules");
		return false;
	}
	listing->names = names;
	snprintf(names[listing->count++], sizeof *names, "%s", name);
	return true;
}

/* How many devices; 0 without a way to ask. */
static int
count_devices(const struct soma__plugin *plugin)
{
	struct soma__backend_table table = { .name = plugin->module.name };
	int count = 0;

	if (plugin->ops.device_count == NULL || soma__arena_create(&table.arena) != SOMA_STATUS_OK)
		return 0;
	soma__backend_table_init(&table, NULL);
	if (plugin->ops.device_count(&table.host, &count) != SOMA_STATUS_OK)
		count = 0;
	soma__arena_destroy(table.arena);
	return count;
}

static enum soma_status
ask(const struct soma__plugin *plugin, struct soma_backend_info *info)
{
	const struct soma__backend_config config = { .name = plugin->module.name };
	struct soma__backend *backend;

	enum soma_status status = soma__backend_open_plugin(&config, plugin, NULL, &backend);
	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__backend_query(backend, info);
	soma__backend_close(backend);
	return status;
}

static void
see(struct listing *listing, const char *name, const char *path)
{
	struct soma__plugin_seen seen = { .name = name, .path = path, .hidden = was_seen(listing, name) };
	struct soma_backend_info info;
	char reason[SOMA__ERROR_TEXT_MAX];

	enum soma_status status = soma__plugin_load(path, &seen.plugin);
	if (status == SOMA_STATUS_OK && seen.plugin->module.wraps == 0) {
		seen.devices = count_devices(seen.plugin);
		status = ask(seen.plugin, &info);
		seen.info = status == SOMA_STATUS_OK ? &info : NULL;
	}
	if (status != SOMA_STATUS_OK) {
		snprintf(reason, sizeof reason, "%s", soma_error_last()->text);
		seen.reason = reason;
	}
	listing->visit(listing->context, &seen);
}

static int
is_module(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return length > 3 && strcmp(entry->d_name + length - 3, ".so") == 0 &&
	       soma__plugin_name_ok(entry->d_name, length - 3);
}

static void
load(struct listing *listing, const char *name, const char *path)
{
	const struct soma__plugin *plugin;

	if (!was_seen(listing, name) && soma__plugin_load(path, &plugin) == SOMA_STATUS_OK)
		listing->load(listing->context, plugin);
}

/* A folder that is not there has no modules. */
static bool
list_folder(void *context, const char *folder)
{
	struct listing *listing = context;
	struct dirent **entries;
	char path[PATH_MAX], name[64];

	int count = scandir(folder, &entries, is_module, alphasort);
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof name, "%.*s", (int)strlen(entries[i]->d_name) - 3, entries[i]->d_name);
		if (listing->status == SOMA_STATUS_OK &&
		    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < (int)sizeof path) {
			if (listing->load != NULL)
				load(listing, name, path);
			else if (listing->visit != NULL)
				see(listing, name, path);
			remember(listing, name);
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	return listing->status == SOMA_STATUS_OK;
}

enum soma_status
soma__plugin_list(const char *search, void (*visit)(void *context, const struct soma__plugin_seen *seen),
		  void *context)
{
	struct listing listing = { .visit = visit, .context = context, .status = SOMA_STATUS_OK };

	soma__plugin_folders(search, list_folder, &listing);
	free(listing.names);
	return listing.status;
}

enum soma_status
soma__plugin_each(const char *search, void (*visit)(void *context, const struct soma__plugin *plugin),
		  void *context)
{
	struct listing listing = { .load = visit, .context = context, .status = SOMA_STATUS_OK };

	soma__plugin_folders(search, list_folder, &listing);
	free(listing.names);
	return listing.status;
}

static const char *
name_at(const void *names, size_t index)
{
	const struct listing *listing = names;

	if (index == 0)
		return "auto";
	return index <= listing->count ? listing->names[index - 1] : NULL;
}

bool
soma__plugin_near(const char *search, const char *name, char near[64])
{
	struct listing listing = { .status = SOMA_STATUS_OK };
	const char *found;

	soma__plugin_folders(search, list_folder, &listing);
	found = soma__name_near(name, strlen(name), name_at, &listing);
	if (found != NULL)
		snprintf(near, 64, "%s", found);
	free(listing.names);
	return found != NULL;
}
