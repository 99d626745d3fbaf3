/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that take the next job until there is none.
 *
 * `mutex` protects what it stands before in struct crew.
 */
#include "config.h" /* first: sched_getaffinity */

#include "tools/jobs.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#define WORKERS_MAX 16
#define WAIT_NS 100000000

struct crew {
	const struct job *jobs;
	size_t count;

	pthread_mutex_t mutex;
	pthread_cond_t ended;
	size_t next, done;
};

static bool
take(struct crew *crew, size_t *job)
{
	bool taken;

	pthread_mutex_lock(&crew->mutex);
	taken = crew->next < crew->count;
	if (taken)
		*job = crew->next++;
	pthread_mutex_unlock(&crew->mutex);
	return taken;
}

static void *
work(void *context)
{
	struct crew *crew = context;
	size_t job;

	while (take(crew, &job)) {
		crew->jobs[job].run(crew->jobs[job].context);
		pthread_mutex_lock(&crew->mutex);
		crew->done++;
		pthread_cond_signal(&crew->ended);
		pthread_mutex_unlock(&crew->mutex);
	}
	return NULL;
}

static size_t
processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

static struct timespec
soon(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_nsec += WAIT_NS;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

static void
wait_for_all(struct crew *crew, void (*wait)(void *context), void *context)
{
	pthread_mutex_lock(&crew->mutex);
	while (crew->done < crew->count) {
		struct timespec until = soon();

		pthread_cond_timedwait(&crew->ended, &crew->mutex, &until);
		if (wait == NULL)
			continue;
		pthread_mutex_unlock(&crew->mutex);
		wait(context);
		pthread_mutex_lock(&crew->mutex);
	}
	pthread_mutex_unlock(&crew->mutex);
}

void
jobs_run(const struct job *jobs, size_t count, void (*wait)(void *context), void *context)
{
	struct crew crew = { .jobs = jobs,
			     .count = count,
			     .mutex = PTHREAD_MUTEX_INITIALIZER,
			     .ended = PTHREAD_COND_INITIALIZER };
	size_t workers = processors(), started = 0;
	pthread_t threads[WORKERS_MAX];

	if (workers > count)
		workers = count;
	while (started < workers && started < WORKERS_MAX &&
	       pthread_create(&threads[started], NULL, work, &crew) == 0)
		started++;
	if (started == 0)
		work(&crew);
	wait_for_all(&crew, wait, context);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_cond_destroy(&crew.ended);
	pthread_mutex_destroy(&crew.mutex);
}
