/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the build folder, by where the running file is: never by the current folder, by argv[0] or by PATH, and
 * not at all in a set-user-id process.
 *
 * A folder of modules counts only when it belongs to whom the command's file belongs to, is no link, and cannot be
 * written by others: who could put a module there could have changed the command as well.
 */
#include "tools/beside.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "SOMA_BACKEND_PATH"

struct search {
	uid_t owner; /* of the command */
	char path[16 * PATH_MAX];
};

/* The folder of the running file, and its owner; libtool may have put the file into a folder of its own. */
static bool
find_folder(char *folder, uid_t *owner)
{
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	struct stat file;
	char *name;

	if (length <= 0 || length >= PATH_MAX - 1)
		return false;
	folder[length] = '\0';
	name = strrchr(folder, '/');
	if (name == NULL || stat(folder, &file) != 0)
		return false;
	*owner = file.st_uid;
	*name = '\0';
	name = strrchr(folder, '/');
	if (name != NULL && strcmp(name, "/.libs") == 0)
		*name = '\0';
	return true;
}

static bool
is_trusted(const char *folder, uid_t owner)
{
	struct stat file;

	return lstat(folder, &file) == 0 && S_ISDIR(file.st_mode) && file.st_uid == owner &&
	       (file.st_mode & S_IWOTH) == 0;
}

static bool
is_listed(const char *list, const char *folder)
{
	size_t length = strlen(folder);

	for (const char *at = strstr(list, folder); at != NULL; at = strstr(at + 1, folder))
		if ((at == list || at[-1] == ':') && (at[length] == ':' || at[length] == '\0'))
			return true;
	return false;
}

static void
add(struct search *search, const char *folder)
{
	size_t used = strlen(search->path);

	if (strchr(folder, ':') == NULL && !is_listed(search->path, folder) &&
	    used + strlen(folder) + 2 <= sizeof search->path)
		snprintf(search->path + used, sizeof search->path - used, "%s%s", used > 0 ? ":" : "",
			 folder);
}

static int
is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* backends/NAME/.libs, by name. */
static void
add_modules(struct search *search, const char *backends)
{
	struct dirent **entries = NULL;
	int count = scandir(backends, &entries, is_name, alphasort);
	char folder[PATH_MAX];

	for (int i = 0; i < count; i++) {
		const char *name = entries[i]->d_name;

		if (snprintf(folder, sizeof folder, "%s/%s", backends, name) < (int)sizeof folder &&
		    is_trusted(folder, search->owner) &&
		    snprintf(folder, sizeof folder, "%s/%s/.libs", backends, name) < (int)sizeof folder &&
		    is_trusted(folder, search->owner))
			add(search, folder);
		free(entries[i]);
	}
	free(entries);
}

void
beside_offer_backends(void)
{
	const char *given = getenv(VARIABLE);
	char folder[PATH_MAX], backends[PATH_MAX];
	struct search search = { .path = "" };

	if (getauxval(AT_SECURE) != 0 || !find_folder(folder, &search.owner))
		return;
	if (given != NULL &&
	    snprintf(search.path, sizeof search.path, "%s", given) >= (int)sizeof search.path)
		return;
	if (snprintf(backends, sizeof backends, "%s/backends", folder) >= (int)sizeof backends ||
	    !is_trusted(backends, search.owner))
		return;
	add_modules(&search, backends);
	if (search.path[0] != '\0')
		setenv(VARIABLE, search.path, 1);
}
