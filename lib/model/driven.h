/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model needs when it stands for streams and memory that are real (lib/pool).  A model that is
 * used through <soma/model.h> alone is not changed by any of this.
 *
 * A held model does not grow: an allocation that would have to (HACKING, "Alloc", step 5) is deferred, with
 * nothing changed but that queued frees were filed; so that what growing takes, and what may be known of
 * frees by then, can be had without the caller's lock.  A segment source may answer DEFERRED, too, and
 * the same holds then, but for what release_on_failure gave back before.
 */
#ifndef SOMA_LIB_MODEL_DRIVEN_H
#define SOMA_LIB_MODEL_DRIVEN_H

#include <soma/model.h>

/* Not a status for users: "not now". */
#define SOMA__STATUS_DEFERRED ((enum soma_status)64)

struct soma__model_driver {
	void *context;
	/* Before step 8 takes a block: makes `stream` wait for the event (wait_stream, wait_seq).  Anything
	 * but OK fails the allocation with nothing changed.  Must not call the model. */
	enum soma_status (*wait)(void *context, uint64_t stream, uint64_t wait_stream, uint64_t wait_seq);
	/* Where it is not NULL, asked before: only frees of wait_stream below this position can be waited for.
	 * `latest` is that of the last one which is pending. */
	uint64_t (*reach)(void *context, uint64_t stream, uint64_t wait_stream, uint64_t latest);
	/* The order with the legacy default stream is one of work, and a position is none: that a blocking
	 * stream was given a position after the legacy stream's proves nothing of the legacy stream when an
	 * event of the blocking one, or of a third after it, is done.  With this the implicit order enters no
	 * clock; where it would let FOLLOW_EVENTS take a block, wait is called as in step 8. */
	bool legacy_by_wait;
};

/* Before the model has a stream that is blocking. */
void soma__model_drive(struct soma_model *model, const struct soma__model_driver *driver);

void soma__model_hold(struct soma_model *model, bool held);

/* soma_model_synchronize() for a host that waited for the positions below seq only; without `release`
 * nothing is given back. */
enum soma_status soma__model_observe(struct soma_model *model, uint64_t stream, uint64_t seq, bool release);

/* Other reuse rules from now on; SAME_STREAM must stay as it is, and per_stream has no FOLLOW_EVENTS and no
 * INTERNAL.  OUT_OF_HOST_MEMORY: they are as before. */
enum soma_status soma__model_set_reuse(struct soma_model *model, unsigned reuse);

/* One of the peaks becomes the current value. */
void soma__model_reset_peak(struct soma_model *model, bool reserved);

/* Whether the blocks of frees that are not known to have executed have at least `least` bytes, and more than what is
 * live >> shift.  Of queued frees the latest, whose blocks were not looked at yet, count as live. */
bool soma__model_pends(const struct soma_model *model, uint64_t least, unsigned shift);

/* Virtual addresses stay below this one. */
void soma__model_set_ceiling(struct soma_model *model, uint64_t address);

#endif
