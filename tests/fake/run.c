/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running what is queued: within the call, when told, or on the worker.
 *
 * The worker takes turns: in each it lowers the lags of the lanes that could run and runs one of those
 * without, chosen by the seed.  So a delay is in turns, never in time.
 */
#include "tests/fake/state.h"

#include <sched.h>

static pthread_t worker;
static bool worker_runs, worker_must_stop;
static bool left_behind; /* immediate: something could not run when it was queued */

bool
lane_can_run(const struct lane *lane)
{
	const struct op *op = lane->head;

	if (op == NULL || lane->busy)
		return false;
	for (unsigned i = 0; i < op->dep_count; i++)
		if (op->deps[i].lane->executed < op->deps[i].pos)
			return false;
	return true;
}

void
lane_run_one(struct lane *lane)
{
	struct op *op = lane->head;

	lane->busy = true;
	op_run(op);
	lane->busy = false;
	lane->head = op->next;
	if (lane->head == NULL)
		lane->tail = &lane->head;
	lane->executed = op->pos;
	lane->lag = (unsigned)draw((uint64_t)world.delay + 1);
	op_free(op);
	pthread_cond_broadcast(&world.changed);
}

static struct lane *
choose(bool lags)
{
	struct lane *chosen = NULL;
	uint64_t candidates = 0;

	for (struct lane *lane = world.lanes; lane != NULL; lane = lane->next) {
		if (!lane_can_run(lane))
			continue;
		if (lags && lane->lag != 0)
			lane->lag--;
		else if (draw(++candidates) == 0)
			chosen = lane;
	}
	return chosen;
}

static bool
any_can_run(void)
{
	for (const struct lane *lane = world.lanes; lane != NULL; lane = lane->next)
		if (lane_can_run(lane))
			return true;
	return false;
}

static void *
work(void *unused)
{
	struct thread *self = thread_self();

	self->inside = true;
	pthread_mutex_lock(&world.mutex);
	while (!worker_must_stop) {
		struct lane *lane = world.mode == FAKE_THREADS ? choose(true) : NULL;
		if (lane != NULL)
			lane_run_one(lane);
		else if (world.mode != FAKE_THREADS || !any_can_run())
			pthread_cond_wait(&world.changed, &world.mutex);
		pthread_mutex_unlock(&world.mutex);
		sched_yield();
		pthread_mutex_lock(&world.mutex);
	}
	pthread_mutex_unlock(&world.mutex);
	self->inside = false;
	return unused;
}

/* Called without the mutex. */
void
worker_stop(void)
{
	pthread_mutex_lock(&world.mutex);
	bool runs = worker_runs;
	worker_must_stop = true;
	pthread_cond_broadcast(&world.changed);
	pthread_mutex_unlock(&world.mutex);
	if (runs)
		pthread_join(worker, NULL);
	worker_runs = worker_must_stop = false;
}

void
worker_forget(void)
{
	worker_runs = worker_must_stop = false;
}

static void
worker_start(void)
{
	if (worker_runs)
		return;
	if (pthread_create(&worker, NULL, work, NULL) == 0)
		worker_runs = true;
	else
		world.mode = FAKE_IMMEDIATE;
}

static void
run_what_can(void)
{
	struct lane *lane;

	while ((lane = choose(false)) != NULL)
		lane_run_one(lane);
	left_behind = false;
	for (lane = world.lanes; lane != NULL; lane = lane->next)
		left_behind = left_behind || lane->head != NULL;
}

void
work_added(struct lane *lane)
{
	if (world.mode == FAKE_THREADS) {
		worker_start();
		pthread_cond_broadcast(&world.changed);
		return;
	}
	if (world.mode != FAKE_IMMEDIATE)
		return;
	while (lane_can_run(lane))
		lane_run_one(lane);
	if (lane->head != NULL || left_behind)
		run_what_can();
}

static struct dep
missing(const struct lane *lane)
{
	const struct op *op = lane->head;

	for (unsigned i = 0; op != NULL && i < op->dep_count; i++)
		if (op->deps[i].lane->executed < op->deps[i].pos)
			return op->deps[i];
	return (struct dep){ NULL, 0 };
}

void
drive(struct lane *lane, uint64_t pos)
{
	while (lane->executed < pos) {
		if (world.mode == FAKE_THREADS || lane->busy) {
			if (world.mode == FAKE_THREADS)
				worker_start();
			pthread_cond_wait(&world.changed, &world.mutex);
			continue;
		}
		struct dep dep = missing(lane);
		if (dep.lane != NULL)
			drive(dep.lane, dep.pos);
		else
			lane_run_one(lane);
	}
}

void
drive_context(struct fake_context *context)
{
	for (struct lane *lane = world.lanes; lane != NULL; lane = lane->next)
		if (context == NULL || lane->context == context)
			drive(lane, lane->submitted);
}

/* ---- controls ------------------------------------------------------------------------------ */

EXPORT void
fake_cuda_mode(enum fake_mode mode, uint64_t seed, unsigned delay)
{
	worker_stop();
	control_enter();
	world.mode = mode;
	world.random = seed;
	world.delay = delay;
	if (mode == FAKE_IMMEDIATE)
		run_what_can();
	else if (mode == FAKE_THREADS)
		worker_start();
	control_leave();
}

EXPORT uint64_t
fake_cuda_step(void *stream, uint64_t count)
{
	struct lane *lane;
	uint64_t ran = 0;

	control_enter();
	if (lane_find(stream, false, &lane) == CUDA_SUCCESS)
		for (; ran < count && lane_can_run(lane); ran++)
			lane_run_one(lane);
	control_leave();
	return ran;
}

EXPORT bool
fake_cuda_step_any(void)
{
	control_enter();
	struct lane *lane = choose(false);
	if (lane != NULL)
		lane_run_one(lane);
	control_leave();
	return lane != NULL;
}

EXPORT void
fake_cuda_run_all(void)
{
	control_enter();
	drive_context(NULL);
	control_leave();
}

EXPORT uint64_t
fake_cuda_pending(void *stream)
{
	struct lane *lane;
	uint64_t n = 0;

	control_enter();
	if (lane_find(stream, false, &lane) == CUDA_SUCCESS)
		n = lane->submitted - lane->executed;
	control_leave();
	return n;
}
