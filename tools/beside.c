/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the build folder, by where the running file is: never by the current folder, by argv[0] or by PATH, and
 * not at all in a set-user-id process.
 *
 * A folder of modules counts only when it belongs to whom the command's file belongs to, is no link, and cannot be
 * written by anybody else, but for a group that may write the command's file, too: who could put a module there could
 * have changed the command as well.
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
	struct stat command;
	char path[16 * PATH_MAX];
};

/* The running file, and its folder; libtool may have put the file into a folder of its own. */
static bool
find_folder(char *folder, struct stat *command)
{
	ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *name;

	if (length <= 0 || length >= PATH_MAX - 1)
		return false;
	folder[length] = '\0';
	name = strrchr(folder, '/');
	if (name == NULL || stat(folder, command) != 0)
		return false;
	*name = '\0';
	name = strrchr(folder, '/');
	if (name != NULL && strcmp(name, "/.libs") == 0)
		*name = '\0';
	return true;
}

static bool
is_trusted(const char *folder, const struct stat *command)
{
	struct stat file;
	bool group_may = (command->st_mode & S_IWGRP) != 0;

	if (lstat(folder, &file) != 0 || !S_ISDIR(file.st_mode) || file.st_uid != command->st_uid)
		return false;
	if ((file.st_mode & S_IWGRP) != 0 && (!group_may || file.st_gid != command->st_gid))
		return false;
	return (file.st_mode & S_IWOTH) == 0;
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
		    is_trusted(folder, &search->command) &&
		    snprintf(folder, sizeof folder, "%s/%s/.libs", backends, name) < (int)sizeof folder &&
		    is_trusted(folder, &search->command))
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

	if (getauxval(AT_SECURE) != 0 || !find_folder(folder, &search.command))
		return;
	if (given != NULL &&
	    snprintf(search.path, sizeof search.path, "%s", given) >= (int)sizeof search.path)
		return;
	if (snprintf(backends, sizeof backends, "%s/backends", folder) >= (int)sizeof backends ||
	    !is_trusted(backends, &search.command))
		return;
	add_modules(&search, backends);
	if (search.path[0] != '\0')
		setenv(VARIABLE, search.path, 1);
}
