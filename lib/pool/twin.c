/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Noting operations, comparing figures, and what a divergence is told as.  The trace that goes with it is
 * twin_trace.c's.
 *
 * The backend is asked, and the log told, with the turn and without the mutex.
 */
#include "lib/pool/twin.h"

#include <stdio.h>
#include <string.h>

#include <soma/backend.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/model/driven.h"
#include "lib/resource/resource.h"
#include "lib/resource/terminal.h"

#define SAME(name) _Static_assert((int)SOMA_POOL_##name == (int)SOMA_BACKEND_##name, "passed on as they are")
SAME(REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME(REUSE_ALLOW_OPPORTUNISTIC);
SAME(REUSE_ALLOW_INTERNAL_DEPENDENCIES);
SAME(RELEASE_THRESHOLD);
SAME(RESERVED_CURRENT);
SAME(RESERVED_HIGH);
SAME(USED_CURRENT);
SAME(USED_HIGH);

#define TEXT_SIZE 512

static const struct {
	enum soma_pool_attribute attribute;
	const char *name;
	unsigned divergence;
} figures[SOMA__TWIN_FIGURES] = {
	[SOMA__TWIN_USED] = { SOMA_POOL_USED_CURRENT, "USED", 0 },
	[SOMA__TWIN_USED_HIGH] = { SOMA_POOL_USED_HIGH, "the highest USED", 0 },
	[SOMA__TWIN_RESERVED] = { SOMA_POOL_RESERVED_CURRENT, "RESERVED", 1 },
	[SOMA__TWIN_RESERVED_HIGH] = { SOMA_POOL_RESERVED_HIGH, "the highest RESERVED", 1 },
};

/* ---- the backend -------------------------------------------------------------------------- */

static enum soma_status
get(const struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t *value)
{
	struct soma__terminal *terminal = pool->resource->terminal;

	return terminal->ops->pool_get(terminal->self, (enum soma_backend_attribute)attribute, value);
}

static enum soma_status
set(const struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	struct soma__terminal *terminal = pool->resource->terminal;

	return terminal->ops->pool_set(terminal->self, (enum soma_backend_attribute)attribute, value);
}

/* Something of others in it would be a difference from the beginning. */
static enum soma_status
check_empty(const struct soma_pool *pool)
{
	uint64_t used = 0, reserved = 0;
	enum soma_status status = soma_resource_trim_to(pool->resource, 0);

	if (status == SOMA_STATUS_OK)
		status = get(pool, SOMA_POOL_USED_CURRENT, &used);
	if (status == SOMA_STATUS_OK)
		status = get(pool, SOMA_POOL_RESERVED_CURRENT, &reserved);
	if (status != SOMA_STATUS_OK || (used == 0 && reserved == 0))
		return status;
	return soma__fail(NOT_SUPPORTED,
			  "twin: the backend's pool has %" PRIu64 " bytes in use and %" PRIu64
			  " reserved: it was expected to be empty, and the pool's alone",
			  used, reserved);
}

/* An attribute that the backend has not stays what the policy says. */
static enum soma_status
take_attribute(struct soma_pool *pool, enum soma_pool_attribute attribute, unsigned bit, unsigned *reuse)
{
	uint64_t value;
	enum soma_status status = get(pool, attribute, &value);

	if (status == SOMA_STATUS_NOT_SUPPORTED)
		return SOMA_STATUS_OK;
	if (status == SOMA_STATUS_OK)
		*reuse = value != 0 ? *reuse | bit : *reuse & ~bit;
	return status;
}

static enum soma_status
take_attributes(struct soma_pool *pool)
{
	unsigned reuse = soma_model_policy(pool->model)->reuse;
	uint64_t threshold;
	enum soma_status status = get(pool, SOMA_POOL_RELEASE_THRESHOLD, &threshold);

	if (status == SOMA_STATUS_OK) {
		pool->threshold = threshold;
		soma_model_set_release_threshold(pool->model, threshold);
	} else if (status != SOMA_STATUS_NOT_SUPPORTED) {
		return status;
	}
	status = take_attribute(pool, SOMA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, SOMA_REUSE_FOLLOW_EVENTS,
				&reuse);
	if (status == SOMA_STATUS_OK)
		status = take_attribute(pool, SOMA_POOL_REUSE_ALLOW_OPPORTUNISTIC, SOMA_REUSE_OPPORTUNISTIC,
					&reuse);
	if (status == SOMA_STATUS_OK)
		status = take_attribute(pool, SOMA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
					SOMA_REUSE_INTERNAL, &reuse);
	return status == SOMA_STATUS_OK ? soma__model_set_reuse(pool->model, reuse) : status;
}

/* ---- making -------------------------------------------------------------------------------- */

enum soma_status
soma__twin_create(struct soma_pool *pool, const struct soma_pool_config *config)
{
	struct soma__twin *twin = soma__arena_calloc(pool->arena, sizeof *twin, 64);
	enum soma_status status;

	if (twin == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	pthread_mutex_init(&twin->turn, NULL);
	twin->unit = config->twin_used_unit != 0 ? config->twin_used_unit : SOMA_TWIN_USED_UNIT;
	twin->tolerance = config->twin_reserved_tolerance;
	twin->alignment = pool->alignment;
	pool->twin = twin;
	status = check_empty(pool);
	if (status == SOMA_STATUS_OK)
		status = take_attributes(pool);
	return status == SOMA_STATUS_OK ? soma__twin_reset_peaks(pool) : status;
}

void
soma__twin_bury(struct soma_pool *pool)
{
	if (pool->twin != NULL)
		pthread_mutex_destroy(&pool->twin->turn);
}

/* ---- the turn ------------------------------------------------------------------------------ */

void
soma__twin_take_turn(struct soma__twin *twin)
{
	uintptr_t self = (uintptr_t)pthread_self();

	if (atomic_load_explicit(&twin->owner, memory_order_relaxed) == self) {
		twin->depth++;
		return;
	}
	if (!soma__pressure_inside()) {
		pthread_mutex_lock(&twin->turn);
	} else if (pthread_mutex_trylock(&twin->turn) != 0) {
		atomic_fetch_add_explicit(&twin->strays, 1, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&twin->owner, self, memory_order_relaxed);
	twin->depth = 1;
}

/* With the pool's mutex. */
void
soma__twin_leave_turn(struct soma__twin *twin)
{
	if (atomic_load_explicit(&twin->owner, memory_order_relaxed) != (uintptr_t)pthread_self()) {
		twin->strays_over++;
		twin->disturbed++;
		twin->peaks_lost = true;
		return;
	}
	if (--twin->depth > 0)
		return;
	atomic_store_explicit(&twin->owner, 0, memory_order_relaxed);
	pthread_mutex_unlock(&twin->turn);
}

void
soma__twin_take(struct soma_pool *pool)
{
	soma__pool_step_out(pool);
	soma__twin_take_turn(pool->twin);
	soma__pool_step_in(pool);
}

/* ---- operations ---------------------------------------------------------------------------- */

static uint64_t
round_up(uint64_t size, uint64_t unit)
{
	return (size + unit - 1) / unit * unit;
}

void
soma__twin_note(struct soma_pool *pool, struct soma__twin_operation operation)
{
	struct soma__twin *twin = pool->twin;

	if (operation.op == SOMA__TWIN_ALLOC) {
		twin->counted += round_up(operation.size, twin->unit);
		twin->rounded += round_up(operation.size, twin->alignment);
		if (twin->counted_high < twin->counted)
			twin->counted_high = twin->counted;
	} else if (operation.op == SOMA__TWIN_FREE || operation.op == SOMA__TWIN_FREE_NOW) {
		twin->counted -= round_up(operation.size, twin->unit);
		twin->rounded -= round_up(operation.size, twin->alignment);
	}
	operation.used = soma_model_used(pool->model);
	operation.reserved = soma_model_reserved(pool->model);
	twin->ring[twin->operations++ % SOMA__TWIN_OPERATIONS] = operation;
}

/* The backend's pool had the block for a moment, and its peak knows it. */
void
soma__twin_failed(struct soma_pool *pool, uint64_t size, uint64_t stream, bool undone)
{
	struct soma__twin *twin = pool->twin;
	uint64_t high = twin->counted + round_up(size, twin->unit);

	twin->disturbed++;
	if (undone && twin->undone_high < high)
		twin->undone_high = high;
	soma__twin_note(pool, (struct soma__twin_operation){
				      .op = SOMA__TWIN_ALLOC_FAILED, .stream = stream, .size = size });
}

uint64_t
soma__twin_serial(struct soma_pool *pool)
{
	uint64_t serial;

	soma__twin_take(pool);
	serial = pool->twin->operations;
	soma__twin_end(pool);
	return serial;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What a comparison has to go by. */
struct figures {
	uint64_t model[SOMA__TWIN_FIGURES];
	uint64_t driver[SOMA__TWIN_FIGURES];
	uint64_t used;    /* as requested */
	uint64_t pending; /* freed and not executed, as far as is known */
	uint64_t graphs;  /* blocks */
};

/* False: the model lacks a free that the driver has. */
static bool
ask_model(struct soma_pool *pool, struct figures *now)
{
	const struct soma__twin *twin = pool->twin;
	struct soma_model_stats stats;

	soma_model_stats(pool->model, &stats, sizeof stats);
	now->graphs = pool->graphs;
	now->used = stats.used;
	now->pending = stats.active - twin->rounded;
	now->model[SOMA__TWIN_USED] = twin->unit == 1 ? stats.used : twin->counted;
	now->model[SOMA__TWIN_USED_HIGH] = twin->unit == 1 ? stats.used_high : twin->counted_high;
	if (now->model[SOMA__TWIN_USED_HIGH] < twin->undone_high)
		now->model[SOMA__TWIN_USED_HIGH] = twin->undone_high;
	now->model[SOMA__TWIN_RESERVED] = stats.reserved;
	now->model[SOMA__TWIN_RESERVED_HIGH] = stats.reserved_high;
	return pool->owed == NULL;
}

static bool
ask_driver(const struct soma_pool *pool, struct figures *now)
{
	for (unsigned i = 0; i < SOMA__TWIN_FIGURES; i++)
		if (get(pool, figures[i].attribute, &now->driver[i]) != SOMA_STATUS_OK)
			return false;
	return true;
}

static uint64_t
distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* ---- telling ----------------------------------------------------------------------------------- */

/* Bytes of the resource's live blocks that are not this pool's; 0 where that is not known. */
static uint64_t
foreign_bytes(const struct soma_pool *pool, const struct figures *now)
{
	struct soma_ledger ledger = { .size = sizeof ledger };

	if (now->graphs > 0 || soma_resource_ledger(pool->resource, &ledger) != SOMA_STATUS_OK)
		return 0;
	return ledger.live_bytes > now->used ? ledger.live_bytes - now->used : 0;
}

/* What would explain the difference. */
static void
guess(const struct soma_pool *pool, const struct figures *now, unsigned which, char *text, size_t size)
{
	const struct soma__twin *twin = pool->twin;
	uint64_t model = now->model[which], driver = now->driver[which], foreign = foreign_bytes(pool, now);

	if (foreign > 0)
		snprintf(text, size, "; %" PRIu64 " bytes of the resource's blocks are not this pool's",
			 foreign);
	else if (which == SOMA__TWIN_USED && driver == twin->rounded)
		snprintf(text, size, "; the driver's is the sum of sizes rounded up to %" PRIu64,
			 twin->alignment);
	else if (which == SOMA__TWIN_USED && driver == now->used)
		snprintf(text, size, "; the driver's is the sum of sizes as requested");
	else if (which == SOMA__TWIN_USED && driver > model && driver - model == now->pending)
		snprintf(text, size, "; as much is freed and has not executed");
	else if (figures[which].divergence == 1 && twin->disturbed > 0)
		snprintf(text, size, "; %" PRIu64 " operations before could not be followed exactly",
			 twin->disturbed);
}

/* What is to be told to the log, when the mutex is let go: the text of a first divergence of either figure. */
struct verdict {
	unsigned count;
	char text[2][TEXT_SIZE];
};

static void
diverge(struct soma_pool *pool, const struct figures *now, unsigned which, struct verdict *verdict)
{
	struct soma__twin *twin = pool->twin;
	struct soma_twin_divergence *divergence = &twin->divergences[figures[which].divergence];
	char *text = verdict->text[verdict->count++], why[TEXT_SIZE / 2] = "", *kept;
	size_t length;

	guess(pool, now, which, why, sizeof why);
	snprintf(text, TEXT_SIZE,
		 "%s is %" PRIu64 " in the model and %" PRIu64 " in the backend's pool (comparison %" PRIu64
		 ", after operation %" PRIu64 ")%s",
		 figures[which].name, now->model[which], now->driver[which], twin->compared, twin->operations,
		 why);
	length = strlen(text) + 1;
	kept = soma__arena_alloc(pool->arena, length, 0);
	*divergence = (struct soma_twin_divergence){
		.happened = true,
		.figure = figures[which].attribute,
		.model = now->model[which],
		.driver = now->driver[which],
		.comparison = twin->compared,
		.operation = twin->operations,
		.text = kept != NULL ? memcpy(kept, text, length) : "no memory for what is to be said",
		.trace = soma__twin_trace(pool, text),
	};
}

static bool
is_known(const struct soma__twin *twin, unsigned which)
{
	return !twin->peaks_lost || (which != SOMA__TWIN_USED_HIGH && which != SOMA__TWIN_RESERVED_HIGH);
}

static void
judge(struct soma_pool *pool, const struct figures *now, unsigned which, struct verdict *verdict)
{
	struct soma__twin *twin = pool->twin;
	struct soma_twin_figure *figure = &twin->figures[which];
	unsigned kind = figures[which].divergence;
	uint64_t difference = distance(now->model[which], now->driver[which]);

	if (difference == 0 || !is_known(twin, which))
		return;
	if (figure->differences++ == 0) {
		figure->first = twin->compared;
		figure->model = now->model[which];
		figure->driver = now->driver[which];
	}
	if (figure->largest < difference)
		figure->largest = difference;
	if (!twin->divergences[kind].happened && difference > (kind == 1 ? twin->tolerance : 0))
		diverge(pool, now, which, verdict);
}

static void
tell(struct soma_pool *pool, const struct verdict *verdict)
{
	soma__pool_step_out(pool);
	for (unsigned i = 0; i < verdict->count; i++)
		soma__log(SOMA_LOG_WARNING, "twin of a pool of device %d: %s", pool->device,
			  verdict->text[i]);
	soma__pool_step_in(pool);
}

/* Not while an operation is under way that has no turn. */
void
soma__twin_compare(struct soma_pool *pool)
{
	struct soma__twin *twin = pool->twin;
	uint64_t over = twin->strays_over;
	struct verdict verdict = { 0 };
	struct figures now;
	bool answered;

	soma__pool_step_out(pool);
	answered = ask_driver(pool, &now);
	soma__pool_step_in(pool);
	if (!ask_model(pool, &now) || !answered || atomic_load(&twin->strays) != over) {
		twin->skipped++;
		return;
	}
	twin->compared++;
	for (unsigned i = 0; i < SOMA__TWIN_FIGURES; i++)
		judge(pool, &now, i, &verdict);
	if (verdict.count > 0)
		tell(pool, &verdict);
}

enum soma_status
soma_pool_twin(struct soma_pool *pool, struct soma_twin_report *report)
{
	struct soma__twin *twin = pool->twin;
	enum soma_status status;

	if (twin == NULL)
		return soma__fail(NOT_SUPPORTED, "the pool was made without a twin");
	if (report->size < sizeof *report)
		return soma__fail(INVALID_VALUE,
				  "a twin's report: the size field is %" PRIu64 ", expected %" PRIu64,
				  report->size, sizeof *report);
	status = soma__twin_enter(pool);
	if (status != SOMA_STATUS_OK)
		return status;
	report->compared = twin->compared;
	report->skipped = twin->skipped;
	report->disturbed = twin->disturbed;
	report->operations = twin->operations;
	report->used = twin->figures[SOMA__TWIN_USED];
	report->used_high = twin->figures[SOMA__TWIN_USED_HIGH];
	report->reserved = twin->figures[SOMA__TWIN_RESERVED];
	report->reserved_high = twin->figures[SOMA__TWIN_RESERVED_HIGH];
	report->used_divergence = twin->divergences[0];
	report->reserved_divergence = twin->divergences[1];
	soma__twin_end(pool);
	soma__pool_leave(pool);
	return SOMA_STATUS_OK;
}

/* ---- attributes -------------------------------------------------------------------------------- */

static void
lower_peak(struct soma_pool *pool)
{
	struct soma__twin *twin = pool->twin;

	soma__pool_lock(pool);
	twin->counted_high = twin->counted;
	twin->undone_high = 0;
	soma__pool_unlock(pool);
}

/* Both were lowered, in the model, too. */
static void
find_peaks(struct soma_pool *pool)
{
	soma__pool_lock(pool);
	pool->twin->peaks_lost = false;
	soma__pool_unlock(pool);
}

enum soma_status
soma__twin_set(struct soma_pool *pool, enum soma_pool_attribute attribute, uint64_t value)
{
	enum soma_status status = set(pool, attribute, value);

	if (status == SOMA_STATUS_OK && attribute == SOMA_POOL_USED_HIGH)
		lower_peak(pool);
	return status;
}

enum soma_status
soma__twin_reset_peaks(struct soma_pool *pool)
{
	enum soma_status status = soma__twin_set(pool, SOMA_POOL_USED_HIGH, 0);

	if (status == SOMA_STATUS_OK)
		status = soma__twin_set(pool, SOMA_POOL_RESERVED_HIGH, 0);
	if (status == SOMA_STATUS_OK)
		find_peaks(pool);
	return status;
}
