/* SPDX-License-Identifier: Apache-2.0 */
/* For tests with threads: jemalloc is built without the thread sanitizer, which then sees its locks by half. */
#ifndef SOMA_TESTS_CHECK_RESOURCE_SANITIZER_H
#define SOMA_TESTS_CHECK_RESOURCE_SANITIZER_H

__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

const char *
__tsan_default_suppressions(void)
{
	return "mutex:malloc_mutex_\nmutex:soma_jei_\ndeadlock:soma_jei_\n"
	       "race:decay_\nrace:arena_decay\nrace:ctl_\nrace:soma_jei_\n";
}

#endif
