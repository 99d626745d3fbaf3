/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading /proc and /sys.
 */
#include "tools/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define THP "/sys/kernel/mm/transparent_hugepage/"

/* Such files hold all choices with the present one in brackets. */
static void
read_choice(const char *path, char *text)
{
	char line[256] = "";
	FILE *file = fopen(path, "re");
	char *start, *end;

	strcpy(text, "unknown");
	if (file == NULL)
		return;
	start = fgets(line, sizeof line, file) != NULL ? strchr(line, '[') : NULL;
	end = start != NULL ? strchr(start, ']') : NULL;
	if (end != NULL)
		snprintf(text, MACHINE_TEXT_MAX, "%.*s", (int)(end - start - 1), start + 1);
	fclose(file);
}

static void
read_explicit(struct machine_huge_pages *pages)
{
	char line[256];
	FILE *file = fopen("/proc/meminfo", "re");

	while (file != NULL && fgets(line, sizeof line, file) != NULL) {
		uint64_t value;

		if (sscanf(line, "HugePages_Total: %" SCNu64, &value) == 1)
			pages->explicit_total = value;
		else if (sscanf(line, "HugePages_Free: %" SCNu64, &value) == 1)
			pages->explicit_free = value;
		else if (sscanf(line, "Hugepagesize: %" SCNu64 " kB", &value) == 1)
			pages->explicit_size = value * 1024;
	}
	if (file != NULL)
		fclose(file);
}

void
machine_read_huge_pages(struct machine_huge_pages *pages)
{
	*pages = (struct machine_huge_pages){ 0 };
	read_choice(THP "enabled", pages->transparent);
	read_choice(THP "defrag", pages->defrag);
	read_explicit(pages);
}
