/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's file and the thread that writes it.
 *
 * Any thread puts; it waits for room only when the ring is full, and for no longer than the trace's patience,
 * and not at all once that was in vain, until there is room.  `writing` is held by who takes events from the
 * ring, also while the file is written; nobody who puts ever takes it.  After fork, the child's copy does
 * nothing.
 */
#ifndef SOMA_LIB_RESOURCE_TRACE_WRITER_H
#define SOMA_LIB_RESOURCE_TRACE_WRITER_H

#include <pthread.h>

#include <soma/resource.h>

#include "lib/resource/trace_ring.h"

#define SOMA__TRACE_BUFFER (64u * 1024)

struct soma__trace_writer {
	struct soma__trace_ring ring;
	struct soma__arena *arena;
	int device;
	int fd;
	bool own_fd;
	uint32_t patience_ms;
	uint32_t flush_ms;
	unsigned forks; /* of the process, at open */

	pthread_t thread;
	_Atomic int started; /* enum in trace_writer.c */
	_Atomic bool closing;
	_Atomic bool idle;     /* the thread sleeps until it is woken */
	_Atomic bool crowded;  /* waiting for room was in vain */
	_Atomic uint64_t lost; /* dropped since the last event that was put */
	_Atomic uint64_t dropped;
	pthread_mutex_t waking; /* for the two conditions alone */
	pthread_cond_t wake;
	pthread_cond_t room;
	_Atomic uint32_t waiting; /* for room */

	pthread_mutex_t writing; /* what follows, and taking from the ring */
	uint64_t last_ns;
	uint64_t events, live_bytes, peak_bytes;
	int error;
	size_t buffered_events; /* in the buffer */
	size_t used;
	char buffer[SOMA__TRACE_BUFFER];
};

enum soma_status soma__trace_writer_open(struct soma__trace_writer *writer, struct soma__arena *arena,
					 int device, const struct soma_trace_config *config);

/* Writes what is left and joins the thread.  Putting is refused from now on. */
enum soma_status soma__trace_writer_close(struct soma__trace_writer *writer);

/* After close, when nobody puts any more. */
void soma__trace_writer_fini(struct soma__trace_writer *writer);

/* False: dropped. */
bool soma__trace_writer_put(struct soma__trace_writer *writer, struct soma__trace_event *event);

/* Counts an event that is not put. */
void soma__trace_writer_lose(struct soma__trace_writer *writer);

enum soma_status soma__trace_writer_flush(struct soma__trace_writer *writer);
void soma__trace_writer_stats(struct soma__trace_writer *writer, struct soma_trace_stats *stats);

#endif
