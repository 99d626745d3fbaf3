/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log's sink.  `listening` alone is read when there is nothing to do; the mutex
 * keeps sink and context together and is not held while the sink runs, so a sink
 * that was just replaced may still be called once.
 */
#include "lib/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#define TEXT_MAX_LENGTH 512

#define NOBODY (-1)

static atomic_int listening = NOBODY; /* the highest level that goes to the sink */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static soma_log_sink *current; /* mutex */
static void *current_context;  /* mutex */

void
soma_log_set_sink(soma_log_sink *sink, void *context, enum soma_log_level level)
{
	pthread_mutex_lock(&mutex);
	current = sink;
	current_context = context;
	atomic_store_explicit(&listening, sink == NULL ? NOBODY : (int)level, memory_order_relaxed);
	pthread_mutex_unlock(&mutex);
}

void
soma__log(enum soma_log_level level, const char *format, ...)
{
	char text[TEXT_MAX_LENGTH];
	int saved = errno;
	va_list args;

	if ((int)level > atomic_load_explicit(&listening, memory_order_relaxed))
		return;
	pthread_mutex_lock(&mutex);
	soma_log_sink *sink = current;
	void *context = current_context;
	pthread_mutex_unlock(&mutex);
	if (sink == NULL)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	sink(context, level, text);
	errno = saved;
}
