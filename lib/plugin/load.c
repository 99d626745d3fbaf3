/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading modules.  A file that the loader would refuse with an obscure text is refused here
 * with a clear one first.  What passed stays loaded: a module may have threads.
 *
 * The mutex covers the list of modules, and dlopen() with the checks that follow, so that a
 * file has one record however many threads ask at once.
 */
#include "config.h"

#include "lib/plugin/plugin.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/log.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct soma__plugin *plugins; /* mutex */

/* ---- the file ----------------------------------------------------------------- */

static enum soma_status
check_contents(int fd, const char *path)
{
	char magic[SELFMAG];
	struct stat st;

	if (fstat(fd, &st) != 0)
		return soma__error_text(SOMA_STATUS_IO, "%s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return soma__error_text(SOMA_STATUS_IO, "%s: it is a directory; a module was expected", path);
	if (!S_ISREG(st.st_mode))
		return soma__error_text(SOMA_STATUS_IO, "%s: it is not a file; a module was expected", path);
	if (read(fd, magic, SELFMAG) != SELFMAG || memcmp(magic, ELFMAG, SELFMAG) != 0)
		return soma__error_text(SOMA_STATUS_IO,
					"%s: it is not an ELF file; a shared object was expected", path);
	return SOMA_STATUS_OK;
}

static enum soma_status
check_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return soma__error_text(SOMA_STATUS_NOT_FOUND, "%s: there is no such file", path);
	if (fd < 0)
		return soma__error_text(SOMA_STATUS_IO, "%s: it cannot be read: %s", path, strerror(errno));
	enum soma_status status = check_contents(fd, path);
	close(fd);
	return status;
}

/* "host" of "/usr/lib/soma/host.so"; false: the file is not named as a module. */
static bool
file_name(const char *path, char name[64])
{
	const char *slash = strrchr(path, '/');
	const char *base = slash == NULL ? path : slash + 1;
	size_t length = strlen(base);

	if (length <= 3 || strcmp(base + length - 3, ".so") != 0 || !soma__plugin_name_ok(base, length - 3))
		return false;
	memcpy(name, base, length - 3);
	name[length - 3] = '\0';
	return true;
}

bool
soma__plugin_name_ok(const char *name, size_t length)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

	return length > 0 && length < 64 && strspn(name, allowed) >= length;
}

/* ---- loading --------------------------------------------------------------------- */

static struct soma__plugin *
find_loaded(const void *handle)
{
	for (struct soma__plugin *plugin = plugins; plugin != NULL; plugin = plugin->next)
		if (plugin->handle == handle)
			return plugin;
	return NULL;
}

/* What is recorded, with the path put before it. */
static enum soma_status
name_path(const char *path, enum soma_status status)
{
	char what[256];

	snprintf(what, sizeof what, "%s", soma_error_last()->text);
	return soma__error_text(status, "%s: %s", path, what);
}

static enum soma_status
check_symbols(void *handle, const char *name, struct soma__plugin *plugin)
{
	const void *symbol = dlsym(handle, SOMA_BACKEND_SYMBOL);

	if (symbol == NULL)
		return soma__error_text(SOMA_STATUS_ABI, "it exports no `" SOMA_BACKEND_SYMBOL
							 "`: it is not a backend of soma");
	return soma__plugin_check(symbol, name, plugin);
}

/* A record of the module behind the handle, which it owns from then on. */
static enum soma_status
record(void *handle, const char *path, const char *name, const struct soma__plugin **out)
{
	struct soma__plugin *plugin = calloc(1, sizeof *plugin);
	char *copy = strdup(path);

	if (plugin == NULL || copy == NULL) {
		free(plugin);
		free(copy);
		return soma__error_text(SOMA_STATUS_OUT_OF_HOST_MEMORY, "no memory for a module's record");
	}
	enum soma_status status = check_symbols(handle, name, plugin);
	if (status != SOMA_STATUS_OK) {
		free(plugin);
		free(copy);
		return status;
	}
	plugin->handle = handle;
	plugin->path = copy;
	plugin->next = plugins;
	plugins = plugin;
	*out = plugin;
	soma__log(SOMA_LOG_DEBUG, "loaded the backend %s %s from %s", plugin->module.name,
		  plugin->module.version, path);
	return SOMA_STATUS_OK;
}

static enum soma_status
load_locked(const char *path, const char *name, const struct soma__plugin **plugin)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (handle == NULL) {
		const char *text = dlerror();
		return soma__error_text(SOMA_STATUS_IO, "the loader refuses it: %s",
					text == NULL ? "?" : text);
	}
	*plugin = find_loaded(handle);
	if (*plugin != NULL) { /* the record has a reference of its own */
		dlclose(handle);
		return soma__plugin_check_name(&(*plugin)->module, name);
	}
	enum soma_status status = record(handle, path, name, plugin);
	if (status != SOMA_STATUS_OK)
		dlclose(handle);
	return status;
}

enum soma_status
soma__plugin_load(const char *path, const struct soma__plugin **out)
{
	const struct soma__plugin *plugin = NULL;
	char name[64];

	enum soma_status status = check_file(path);
	if (status != SOMA_STATUS_OK)
		return status;
	if (!file_name(path, name))
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"%s: a module's file is NAME.so, with letters, digits, - and _",
					path);
	pthread_mutex_lock(&mutex);
	status = load_locked(path, name, &plugin);
	pthread_mutex_unlock(&mutex);
	if (status != SOMA_STATUS_OK)
		return name_path(path, status);
	*out = plugin;
	return SOMA_STATUS_OK;
}
