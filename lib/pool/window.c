/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of virtual addresses; see the header.  First fit over a list by address. */
#include "lib/pool/window.h"

#include <pthread.h>

#include <soma/model.h>

#include "lib/base/error.h"

/* User space ends here, on machines with four levels of page tables. */
#define FIRST ((uint64_t)1 << 47)
#define END SOMA_MODEL_ADDRESS_MAX
#define SMALLEST ((uint64_t)1 << 30)
#define UNLIMITED ((uint64_t)1 << 40)

/* Holes between segments take addresses, too. */
#define SPARE 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct soma__window *windows;

static uint64_t
length_for(uint64_t max_size, uint64_t addresses)
{
	uint64_t length = max_size * SPARE;

	if (max_size == 0)
		length = UNLIMITED;
	else if (max_size > (END - FIRST) / SPARE)
		length = END - FIRST;
	if (length < addresses)
		length = addresses;
	return (length + SMALLEST - 1) / SMALLEST * SMALLEST;
}

/* Under the mutex: the place in the list where there is room from *base on; NULL: there is none. */
static struct soma__window **
find_room(uint64_t length, uint64_t *base)
{
	struct soma__window **at = &windows;

	*base = FIRST;
	for (; *at != NULL; at = &(*at)->next) {
		if ((*at)->base - *base >= length)
			return at;
		*base = (*at)->end;
	}
	return END - *base >= length ? at : NULL;
}

enum soma_status
soma__window_take(uint64_t max_size, uint64_t addresses, struct soma__window *window)
{
	uint64_t length = length_for(max_size, addresses);
	struct soma__window **at;

	pthread_mutex_lock(&mutex);
	at = find_room(length, &window->base);
	if (at != NULL) {
		window->end = window->base + length;
		window->next = *at;
		*at = window;
	}
	pthread_mutex_unlock(&mutex);
	if (at == NULL)
		return soma__fail(NOT_SUPPORTED,
				  "no %" PRIu64 " bytes of virtual addresses are left for another pool",
				  length);
	return SOMA_STATUS_OK;
}

void
soma__window_give(struct soma__window *window)
{
	struct soma__window **at = &windows;

	if (window->end == 0)
		return;
	pthread_mutex_lock(&mutex);
	while (*at != window)
		at = &(*at)->next;
	*at = window->next;
	pthread_mutex_unlock(&mutex);
	window->end = 0;
}
