/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc/self/smaps says of a set of ranges.  A mapping is ours when it starts
 * in one of our chunks: nothing of others is ever merged with it (pages.c).
 * The set is locked while the file is read.
 */
#include "lib/arena/pages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/log.h"

struct sums {
	uint64_t resident; /* hugetlb pages are not in it */
	uint64_t transparent;
	uint64_t explicit_huge;
};

static void
add_line(struct sums *sums, const char *line)
{
	char name[32];
	uint64_t kib;

	if (sscanf(line, "%31[^:]: %" SCNu64 " kB", name, &kib) != 2)
		return;
	if (strcmp(name, "Rss") == 0)
		sums->resident += kib << 10;
	else if (strcmp(name, "AnonHugePages") == 0)
		sums->transparent += kib << 10;
	else if (strcmp(name, "Private_Hugetlb") == 0 || strcmp(name, "Shared_Hugetlb") == 0)
		sums->explicit_huge += kib << 10;
}

static bool
read_smaps(const struct soma__pages *pages, struct sums *sums)
{
	char line[512];
	bool ours = false, at_start = true;
	FILE *file = fopen("/proc/self/smaps", "re");

	if (file == NULL)
		return false;
	while (fgets(line, sizeof line, file) != NULL) {
		uint64_t start, end;
		/* A path can be longer than `line`; the rest of it is no line of its own. */
		bool whole = strchr(line, '\n') != NULL;
		if (at_start && sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			ours = soma__pages_owns(pages, (uintptr_t)start);
		else if (at_start && ours)
			add_line(sums, line);
		at_start = whole;
	}
	bool good = ferror(file) == 0;
	fclose(file);
	return good;
}

/* What most of the huge memory is. */
static const char *
page_kind(const struct sums *sums)
{
	if (sums->explicit_huge == 0 && sums->transparent == 0)
		return "plain";
	return sums->explicit_huge >= sums->transparent ? "explicit huge" : "transparent huge";
}

enum soma_status
soma__pages_info(struct soma__pages *pages, struct soma_memory_info *info)
{
	struct sums sums = { 0 };

	pthread_mutex_lock(&pages->mutex);
	bool good = read_smaps(pages, &sums);
	int reason = errno;
	uint64_t table = pages->table == pages->first ? 0 : pages->slots * sizeof *pages->table;
	uint64_t mapped = pages->mapped + table;
	pthread_mutex_unlock(&pages->mutex);
	if (!good) {
		soma__log(SOMA_LOG_WARNING,
			  "/proc/self/smaps cannot be read (%s): the pages of records are not known",
			  strerror(reason));
		return soma__fail(IO, "/proc/self/smaps cannot be read");
	}
	*info = (struct soma_memory_info){
		.mapped = mapped,
		.resident = sums.resident + sums.explicit_huge + table,
		.huge = sums.transparent + sums.explicit_huge,
		.page_kind = page_kind(&sums),
	};
	return SOMA_STATUS_OK;
}
