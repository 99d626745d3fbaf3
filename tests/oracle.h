/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The oracle: a second implementation of HACKING, "The model", written from that
 * text alone and as naively as it allows: arrays, loops, histories kept for ever.
 * It shares no code with lib/model, is slow on purpose, and records no error
 * detail.  The functions do what the soma_model_ ones of the same name do.
 *
 * No locking: one thread at a time.  Out of memory aborts.
 */
#ifndef SOMA_TESTS_ORACLE_H
#define SOMA_TESTS_ORACLE_H

#include <stdbool.h>

#include <soma/model.h>

struct oracle;

/* Rules that the oracle can break on purpose, to show that a comparison notices. */
enum oracle_fault {
	ORACLE_FAULT_NONE,
	ORACLE_FAULT_OLDEST_FIRST,   /* in a region, the block put there first */
	ORACLE_FAULT_NO_BARRIER,     /* an event does not keep earlier frees apart */
	ORACLE_FAULT_NOT_TRANSITIVE, /* an event proves its own stream alone */
	ORACLE_FAULT_TRIM_OVERSHOOT, /* the last segment may go below the floor */
	ORACLE_FAULT_QUEUE_EARLY,    /* the queue is filed one free too early */
	ORACLE_FAULT_QUEUE_OLDEST,   /* of two queued blocks of one size the earlier serves */
	ORACLE_FAULT_QUEUE_ALWAYS,   /* what was taken from the open block is queued, too */
	ORACLE_FAULT_WAIT_SHORT,     /* an inserted wait does not cover the free */
	ORACLE_FAULT_STEAL_BEHIND,   /* pages always go from a free block's end */
	ORACLE_FAULTS,
};

void oracle_set_fault(struct oracle *o, enum oracle_fault fault);

enum soma_status oracle_create(const struct soma_model_limits *limits, struct oracle **o);
void oracle_destroy(struct oracle *o);
void oracle_set_release_threshold(struct oracle *o, uint64_t bytes);

enum soma_status oracle_stream_create(struct oracle *o, unsigned flags, uint64_t *stream);
enum soma_status oracle_stream_destroy(struct oracle *o, uint64_t stream);
enum soma_status oracle_record_event(struct oracle *o, uint64_t stream, uint64_t *seq);
enum soma_status oracle_wait_event(struct oracle *o, uint64_t stream, uint64_t event_stream,
				   uint64_t event_seq);
enum soma_status oracle_advance(struct oracle *o, uint64_t stream, uint64_t seq);
enum soma_status oracle_synchronize(struct oracle *o, uint64_t stream);
enum soma_status oracle_synchronize_all(struct oracle *o);
enum soma_status oracle_position(const struct oracle *o, uint64_t stream,
				 struct soma_model_position *position);

enum soma_status oracle_alloc(struct oracle *o, uint64_t size, uint64_t stream,
			      struct soma_model_alloc *alloc);
enum soma_status oracle_free(struct oracle *o, uint64_t ptr, uint64_t stream);
bool oracle_is_live(const struct oracle *o, uint64_t ptr);
bool oracle_is_ready_same_stream(const struct oracle *o, const struct soma_model_alloc *alloc);
bool oracle_is_ready_cross_stream(const struct oracle *o, const struct soma_model_alloc *alloc,
				  uint64_t consumer, uint64_t wait_seq);
enum soma_status oracle_trim_to(struct oracle *o, uint64_t keep);

enum soma_status oracle_adopt_segment(struct oracle *o, uint64_t stream, unsigned pool, uint64_t address,
				      uint64_t size);
enum soma_status oracle_adopt_block(struct oracle *o, uint64_t ptr, uint64_t size, uint64_t capacity);
enum soma_status oracle_release_segment(struct oracle *o, uint64_t address);

void oracle_stats(const struct oracle *o, struct soma_model_stats *stats, size_t size);
void oracle_reset_peaks(struct oracle *o);
void oracle_walk(const struct oracle *o, bool (*visit)(void *context, const struct soma_extent *extent),
		 void *context);

#endif
