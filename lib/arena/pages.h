/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages under one arena: ranges of 2 MiB chunks taken from the system.
 *
 * Knows nothing of jemalloc.  Memory of a range is committed (in use) or not;
 * what is not committed is given back to the system: at once on plain pages, and
 * by whole chunks on huge ones, because a huge page cannot be given back in part
 * without losing it.  Committed memory reads as zero.
 *
 * The owner is small, and on plain pages, until it has committed
 * SOMA__PAGES_SMALL bytes; from there on it asks for huge pages.
 *
 * Safe for concurrent use; one mutex a set, never held across anything but system
 * calls on the set's own memory.
 */
#ifndef SOMA_LIB_ARENA_PAGES_H
#define SOMA_LIB_ARENA_PAGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <soma/model.h>

#define SOMA__PAGES_CHUNK ((size_t)2 << 20)
#define SOMA__PAGES_SMALL ((size_t)4 << 20)

/* One 2 MiB chunk of a range; a slot of the table. */
struct soma__chunk {
	uintptr_t number;   /* address / 2 MiB; 0: the slot is empty */
	uint32_t committed; /* bytes */
	uint32_t range;     /* in a range's first chunk: how many chunks it has; else 0 */
	bool metadata;      /* jemalloc's own: always plain, not counted as records */
	bool huge;          /* huge pages were asked for */
	bool explicit_huge; /* MAP_HUGETLB */
	bool slack;         /* a table's last one, plain because so little of it is in use */
	bool dirty;         /* what is not committed may be other than zero */
};

#define SOMA__PAGES_INLINE 64

struct soma__pages {
	pthread_mutex_t mutex; /* protects everything below */
	bool want_huge;
	bool huge;          /* the small stage is over */
	uint64_t committed; /* bytes of records */
	uint64_t mapped;    /* bytes of ranges */
	size_t chunks;
	size_t slots;              /* a power of two */
	struct soma__chunk *table; /* open addressing; `first` until it is outgrown */
	struct soma__chunk first[SOMA__PAGES_INLINE];
	_Atomic(const char *) turned; /* not under the mutex; see soma__pages_turned() */
};

/* False without memory for a mutex. */
bool soma__pages_init(struct soma__pages *pages, bool want_huge);

/* Unmaps every range. */
void soma__pages_fini(struct soma__pages *pages);

/*
 * A new range of at least `size` bytes, aligned to `alignment` (a power of two).
 * Records start uncommitted; `metadata` is committed at once.  NULL without memory.
 */
void *soma__pages_map(struct soma__pages *pages, size_t size, size_t alignment, bool metadata);

/* Both take any part of mapped ranges, in whole small pages, and cannot fail. */
void soma__pages_commit(struct soma__pages *pages, void *address, size_t size);
void soma__pages_decommit(struct soma__pages *pages, void *address, size_t size);

/*
 * A table: a range of which the front is in use, and which grows where it is.  What is
 * new reads as zero.  soma__pages_table() makes one, NULL without memory: one that grows, with
 * addresses for that, or one of which all will be written.  soma__pages_extend() makes it larger, unless
 * its addresses do not suffice or there is no memory; and soma__pages_give() gives it back.  The
 * sizes are those that it has.
 */
void *soma__pages_table(struct soma__pages *pages, size_t size, bool grows);
bool soma__pages_extend(struct soma__pages *pages, void *table, size_t old, size_t size);
void soma__pages_give(struct soma__pages *pages, void *table, size_t size);

/*
 * Gives back the metadata's pages that hold nothing but zeros: making an arena,
 * jemalloc writes some 60 KiB of them.  Only while nobody else can be using the
 * metadata.
 */
void soma__pages_drop_zeros(struct soma__pages *pages);

/*
 * What it is on, once, after the small stage has ended: "explicit huge", "transparent
 * huge" or "plain"; NULL else.  Whoever logs it does so outside of jemalloc, whose
 * locks are held while ranges are mapped and committed.
 */
const char *soma__pages_turned(struct soma__pages *pages);

/* The address lies in a range.  The caller holds the mutex. */
bool soma__pages_owns(const struct soma__pages *pages, uintptr_t address);

/* What smaps says of the ranges.  SOMA_STATUS_IO when it cannot be read. */
enum soma_status soma__pages_info(struct soma__pages *pages, struct soma_memory_info *info);

#endif
