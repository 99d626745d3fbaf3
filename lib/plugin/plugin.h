/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: finding, loading and checking them.  What is opened of them is backend.h's.
 *
 * A module is NAME.so in one of these folders, in this order: those of `search`
 * (--backend-path), those of SOMA_BACKEND_PATH (not in a set-user-id process), the
 * installed one.  `search` is a list with colons; NULL or "": none; empty parts are skipped.
 *
 * Everything may be called from any thread.  One mutex covers loading; no code of a module runs
 * under it but its constructors.
 */
#ifndef SOMA_LIB_PLUGIN_PLUGIN_H
#define SOMA_LIB_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>
#include <soma/status.h>

/* A module that was loaded and passed every check.  It stays for ever. */
struct soma__plugin {
	struct soma__plugin *next;
	void *handle;
	char *path;
	struct soma_backend_module module; /* whole: what it did not know is zero */
	struct soma_backend_ops ops;       /* the same; module.ops points here */
	uint64_t groups;                   /* capability bits of the groups that it has */
};

/* Calls visit for every folder in order until it returns false. */
void soma__plugin_folders(const char *search, bool (*visit)(void *context, const char *folder),
			  void *context);

/*
 * Loads the file, or finds it loaded.  NOT_FOUND: there is no such file; IO: it cannot be
 * read or is refused by the loader, with its text; ABI: it is not such a module as <soma/backend.h>
 * says, and nothing in it was called.  The text begins with the path.
 */
enum soma_status soma__plugin_load(const char *path, const struct soma__plugin **plugin);

/* Loads the first NAME.so there is; if that cannot be loaded, no other is tried. */
enum soma_status soma__plugin_find(const char *search, const char *name, const struct soma__plugin **plugin);

/* Letters, digits, - and _, at most 63. */
bool soma__plugin_name_ok(const char *name, size_t length);

/* check.c: fills module, ops and groups from what the module exports.  The text does not name it. */
enum soma_status soma__plugin_check(const void *symbol, const char *file_name, struct soma__plugin *plugin);

/* Whether the module may be in a file of this name. */
enum soma_status soma__plugin_check_name(const struct soma_backend_module *module, const char *file_name);

/* One module that was found, for `soma info`. */
struct soma__plugin_seen {
	const char *name; /* of the file */
	const char *path;
	const struct soma__plugin *plugin;    /* NULL: it cannot be loaded */
	const struct soma_backend_info *info; /* of device 0; NULL: not opened (see reason), or it wraps */
	int devices;                          /* how many it can be opened for; 0: unknown */
	bool hidden;                          /* an earlier folder has one of this name */
	const char *reason;                   /* why it cannot be used here; NULL: it can */
};

/* Visits every module of every folder, by name within a folder; opens and closes device 0. */
enum soma_status soma__plugin_list(const char *search,
				   void (*visit)(void *context, const struct soma__plugin_seen *seen),
				   void *context);

/* Loads, without opening anything, every module that soma__plugin_find() would find by its name; those that cannot be
 * loaded are passed over. */
enum soma_status soma__plugin_each(const char *search,
				   void (*visit)(void *context, const struct soma__plugin *plugin),
				   void *context);

/* The backend's name that is nearest to this one, which is none; false: none is near.  Loads nothing. */
bool soma__plugin_near(const char *search, const char *name, char near[64]);

#endif
