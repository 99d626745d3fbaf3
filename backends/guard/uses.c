/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of use, free and reuse.  Does not lock; memory only in uses_reserve(). */
#include "backends/guard/uses.h"

#include <string.h>

static const struct clock_access *
reads_of(const struct uses *uses)
{
	return uses->reads != NULL ? uses->reads : &uses->one;
}

void
uses_init(struct uses *uses, const struct clock_access *alloc)
{
	*uses = (struct uses){ .alloc = *alloc, .read_room = USES_READS_WITHIN };
}

void
uses_fini(struct uses *uses, const struct soma_backend_host *host)
{
	if (uses->reads != NULL)
		host->free(host->context, uses->reads, uses->read_room * sizeof *uses->reads);
	uses->reads = NULL;
	uses->read_count = 0;
	uses->read_room = USES_READS_WITHIN;
}

bool
uses_unordered(const struct uses *uses, const struct clocks *clocks, uint32_t lane, uint32_t *at,
	       struct clock_access *use)
{
	const struct clock_access *reads = reads_of(uses);

	for (; *at <= uses->read_count; (*at)++) {
		const struct clock_access *next = *at == 0 ? &uses->write : &reads[*at - 1];
		if (!clocks_ordered(clocks, lane, next)) {
			*use = *next;
			(*at)++;
			return true;
		}
	}
	return false;
}

bool
uses_are_over(const struct uses *uses, const struct clocks *clocks)
{
	struct clock_access use;
	uint32_t at = 0;

	return clocks_ordered(clocks, CLOCKS_HOST, &uses->alloc) &&
	       !uses_unordered(uses, clocks, CLOCKS_HOST, &at, &use);
}

struct use_verdict
uses_check(const struct uses *uses, const struct clocks *clocks, uint32_t lane, unsigned access)
{
	struct use_verdict verdict = { 0 };
	uint32_t at = 0;

	if (!clocks_ordered(clocks, lane, &uses->alloc))
		return (struct use_verdict){ USE_BEFORE_READY, uses->alloc };
	if (access & SOMA_BACKEND_ACCESS_WRITE) {
		if (uses_unordered(uses, clocks, lane, &at, &verdict.first))
			verdict.fault = USE_RACE;
	} else if (!clocks_ordered(clocks, lane, &uses->write)) {
		verdict = (struct use_verdict){ USE_RACE, uses->write };
	} else if (uses->write.tick == 0) {
		verdict = (struct use_verdict){ USE_UNINITIALISED, uses->alloc };
	}
	return verdict;
}

struct use_verdict
uses_check_free(const struct uses *uses, const struct clocks *clocks, uint32_t lane)
{
	struct use_verdict verdict = { 0 };
	uint32_t at = 0;

	if (!clocks_ordered(clocks, lane, &uses->alloc))
		return (struct use_verdict){ USE_FREE_UNORDERED, uses->alloc };
	if (uses_unordered(uses, clocks, lane, &at, &verdict.first))
		verdict.fault = USE_FREE_UNORDERED;
	return verdict;
}

struct use_verdict
uses_check_reuse(const struct uses *uses, const struct clock_access *freed, const struct clocks *clocks,
		 uint32_t lane)
{
	struct use_verdict verdict = { 0 };
	uint32_t at = 0;

	if (!clocks_ordered(clocks, lane, freed))
		return (struct use_verdict){ USE_REUSE_UNORDERED, *freed };
	if (uses_unordered(uses, clocks, lane, &at, &verdict.first))
		verdict.fault = USE_REUSE_UNORDERED;
	return verdict;
}

bool
uses_reserve(struct uses *uses, const struct soma_backend_host *host)
{
	uint32_t room = uses->read_room * 4;

	if (uses->read_count < uses->read_room)
		return true;
	struct clock_access *reads = host->alloc(host->context, room * sizeof *reads, 0);
	if (reads == NULL)
		return false;
	memcpy(reads, reads_of(uses), uses->read_count * sizeof *reads);
	if (uses->reads != NULL)
		host->free(host->context, uses->reads, uses->read_room * sizeof *uses->reads);
	uses->reads = reads;
	uses->read_room = room;
	return true;
}

/* What the access is not ordered after stays: the free has to wait for it.  A write that gives way to one
 * of those is kept among the reads. */
void
uses_record(struct uses *uses, const struct clocks *clocks, const struct clock_access *access)
{
	struct clock_access *reads = uses->reads != NULL ? uses->reads : &uses->one;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < uses->read_count; i++)
		if (!clocks_ordered(clocks, access->lane, &reads[i]))
			reads[kept++] = reads[i];
	if (!(access->kind & SOMA_BACKEND_ACCESS_WRITE)) {
		reads[kept++] = *access;
	} else {
		if (!clocks_ordered(clocks, access->lane, &uses->write))
			reads[kept++] = uses->write;
		uses->write = *access;
	}
	uses->read_count = kept;
}

struct clock_access
uses_last(const struct uses *uses)
{
	const struct clock_access *reads = reads_of(uses);
	struct clock_access last = uses->write;

	for (uint32_t i = 0; i < uses->read_count; i++)
		if (reads[i].seq > last.seq)
			last = reads[i];
	return last;
}
