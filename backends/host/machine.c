/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading meminfo and control groups.  A group's limit holds for all below it, so every
 * folder from the process's own up to the mount point counts.  What cannot be read is taken
 * as no limit.
 */
#include "backends/host/machine.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group_files {
	const char *fstype;
	const char *limit, *usage, *inactive; /* inactive: a line of memory.stat */
};

static const struct group_files version_2 = { "cgroup2", "memory.max", "memory.current", "inactive_file" };
static const struct group_files version_1 = { "cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes",
					      "total_inactive_file" };

static FILE *
open_under(const char *root, const char *folder, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s%s/%s", root, folder, name) >= (int)sizeof path)
		return NULL;
	return fopen(path, "re");
}

/* The number after `key` at the start of a line. */
static bool
read_line_value(FILE *file, const char *key, uint64_t *value)
{
	char line[256];
	size_t length = strlen(key);

	if (file == NULL)
		return false;
	rewind(file);
	while (fgets(line, sizeof line, file) != NULL)
		if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':'))
			return sscanf(line + length + 1, " %" SCNu64, value) == 1;
	return false;
}

/* A file of one number.  False also for "max". */
static bool
read_number(const char *root, const char *folder, const char *name, uint64_t *value)
{
	FILE *file = open_under(root, folder, name);

	if (file == NULL)
		return false;
	bool ok = fscanf(file, "%" SCNu64, value) == 1;
	fclose(file);
	return ok;
}

static uint64_t
read_inactive(const char *root, const char *folder, const char *key)
{
	FILE *file = open_under(root, folder, "memory.stat");
	uint64_t value = 0;

	if (file == NULL)
		return 0;
	if (!read_line_value(file, key, &value))
		value = 0;
	fclose(file);
	return value;
}

static uint64_t
less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* File pages that nobody used lately are given back before anybody is refused. */
static void
apply_group(const char *root, const char *folder, const struct group_files *files, struct machine *machine)
{
	uint64_t limit, usage;

	if (!read_number(root, folder, files->limit, &limit))
		return;
	if (limit < machine->total)
		machine->total = limit;
	if (!read_number(root, folder, files->usage, &usage))
		return;
	usage = less(usage, read_inactive(root, folder, files->inactive));
	if (less(limit, usage) < machine->free)
		machine->free = less(limit, usage);
}

static bool
has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)) != NULL; at += length)
		if ((at == list || at[-1] == ',') &&
		    (at[length] == '\0' || at[length] == ',' || at[length] == '\n'))
			return true;
	return false;
}

/* The process's group of this version: the third field of a line "id:controllers:path". */
static bool
find_group(const char *root, const struct group_files *files, char *path, size_t size)
{
	FILE *file = open_under(root, "", "proc/self/cgroup");
	char line[PATH_MAX + 256];
	bool found = false;

	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof line, file) != NULL) {
		char *controllers = strchr(line, ':');
		char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
		if (group == NULL)
			continue;
		*group++ = '\0';
		found = files == &version_2 ? controllers[1] == '\0' : has_word(controllers + 1, "memory");
		group[strcspn(group, "\n")] = '\0';
		if (found)
			snprintf(path, size, "%s", group);
	}
	fclose(file);
	return found;
}

struct mount {
	char root[PATH_MAX]; /* the group that is at the mount point */
	char point[PATH_MAX];
};

_Static_assert(PATH_MAX == 4096, "the widths of the conversions in parse_mount()");

static bool
parse_mount(const char *line, const struct group_files *files, struct mount *mount)
{
	const char *rest = strstr(line, " - ");
	char fstype[32], options[1024];

	if (rest == NULL || sscanf(rest, " - %31s %*s %1023s", fstype, options) != 2)
		return false;
	if (strcmp(fstype, files->fstype) != 0 || (files == &version_1 && !has_word(options, "memory")))
		return false;
	return sscanf(line, "%*s %*s %*s %4095s %4095s", mount->root, mount->point) == 2;
}

static bool
find_mount(const char *root, const struct group_files *files, struct mount *mount)
{
	FILE *file = open_under(root, "", "proc/self/mountinfo");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	if (file == NULL)
		return false;
	while (!found && getline(&line, &size, file) > 0)
		found = parse_mount(line, files, mount);
	free(line);
	fclose(file);
	return found;
}

/* The part of the group's path below the mount point; in a container the mount's root is often
 * the group itself, or the path is not below it at all. */
static const char *
below(const char *path, const char *mount_root)
{
	size_t length = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);

	if (strncmp(path, mount_root, length) != 0 || (path[length] != '/' && path[length] != '\0'))
		return "";
	return path + length;
}

static void
apply_version(const char *root, const struct group_files *files, struct machine *machine)
{
	char group[PATH_MAX], folder[2 * PATH_MAX];
	struct mount *mount = malloc(sizeof *mount);

	if (mount == NULL)
		return;
	if (find_group(root, files, group, sizeof group) && find_mount(root, files, mount)) {
		size_t top = strlen(mount->point);
		snprintf(folder, sizeof folder, "%s%s", mount->point, below(group, mount->root));
		for (;;) {
			apply_group(root, folder, files, machine);
			char *slash = strrchr(folder + top, '/');
			if (slash == NULL)
				break;
			*slash = '\0';
		}
	}
	free(mount);
}

bool
machine_read(const char *root, struct machine *machine)
{
	FILE *file = open_under(root, "", "proc/meminfo");
	uint64_t total, available;

	bool ok = read_line_value(file, "MemTotal", &total) &&
		  read_line_value(file, "MemAvailable", &available);
	if (file != NULL)
		fclose(file);
	if (!ok)
		return false;
	*machine = (struct machine){ .total = total * 1024, .free = available * 1024 };
	apply_version(root, &version_2, machine);
	apply_version(root, &version_1, machine);
	if (machine->free > machine->total)
		machine->free = machine->total;
	return true;
}
