/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open backends: a module, or one around another, opened for a device.
 *
 * A name is "host", "guard:host" or "guard:auto"; the part after the last colon is the one that owns memory.
 * `auto` is async, else sync, else host: the first that can be opened; why others cannot is only
 * logged.  A named backend that cannot be opened is an error.
 *
 * Opening and closing may be done by any thread; ops are called through `ops` and `self`, as
 * <soma/backend.h> says, with no function between.
 */
#ifndef SOMA_LIB_PLUGIN_BACKEND_H
#define SOMA_LIB_PLUGIN_BACKEND_H

#include <soma/backend.h>
#include <soma/status.h>

struct soma__plugin;

/* An option with its module: {"guard.tombstones", "4"}. */
struct soma__backend_config {
	const char *name;
	const char *search; /* as in plugin.h */
	int device;
	size_t option_count;
	/* Each for a module of the name; with `auto`, also for one that auto might have
	 * chosen.  Any other is INVALID_VALUE. */
	const struct soma_backend_option *options;
	/* See host->released in <soma/backend.h>; NULL: nobody listens. */
	void (*released)(void *context, uint64_t ptr, uint64_t size);
	void *context;
};

struct soma__backend {
	const struct soma_backend_ops *ops; /* of the outermost */
	struct soma_backend *self;
	uint64_t capabilities; /* as it was opened, groups without ops masked */
	const struct soma__plugin *plugin;
	struct soma__backend *inner; /* NULL: it is not around another */
};

/* Errors: what finding, loading and opening answer; the text names the backend. */
enum soma_status soma__backend_open(const struct soma__backend_config *config,
				    struct soma__backend **backend);

/* The same for one loaded module; config->name and search are not looked at.  On success the new one
 * owns `inner`; NULL: it goes around none. */
enum soma_status soma__backend_open_plugin(const struct soma__backend_config *config,
					   const struct soma__plugin *plugin, struct soma__backend *inner,
					   struct soma__backend **backend);

/* Closes it and what it is around.  NULL is allowed.  May wait for queued work. */
void soma__backend_close(struct soma__backend *backend);

/* ops->query with the capabilities masked. */
enum soma_status soma__backend_query(const struct soma__backend *backend, struct soma_backend_info *info);

/* The name from outside in, "guard:host".  Writes at most `size` bytes into `buffer` and returns it. */
char *soma__backend_name(const struct soma__backend *backend, char *buffer, size_t size);

#endif
