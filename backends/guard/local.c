/* SPDX-License-Identifier: Apache-2.0 */
/* What each thread has of its own.  No locks. */
#include "config.h"

#include "backends/guard/local.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backends/guard/guard.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void
drop(void *memory)
{
	struct local *local = memory;

	if (local->fault_stack != NULL)
		fault_drop_stack(local->fault_stack);
	munmap(local, sizeof *local);
}

static void
make_key(void)
{
	has_key = pthread_key_create(&key, drop) == 0;
}

struct local *
local_get(void)
{
	pthread_once(&once, make_key);
	struct local *local = has_key ? pthread_getspecific(key) : NULL;

	if (local != NULL || !has_key)
		return local;
	local = mmap(NULL, sizeof *local, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (local == MAP_FAILED)
		return NULL;
	if (pthread_setspecific(key, local) != 0) {
		munmap(local, sizeof *local);
		return NULL;
	}
	local->thread = (uint32_t)syscall(SYS_gettid);
	return local;
}

uint32_t
guard_thread(void)
{
	struct local *local = local_get();

	return local != NULL ? local->thread : (uint32_t)syscall(SYS_gettid);
}
