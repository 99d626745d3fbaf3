/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a backend, uses what it says it can do, and closes it.
 *
 *   probe_backend [-s FOLDERS] [-o KEY=VALUE]... NAME
 *
 * Exits with 0; with 10 + the status that something answered, and its text; or with 1 where
 * what was answered is wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/plugin/backend.h"
#include "lib/plugin/plugin.h"

#define BLOCKS 8
#define OPTIONS_MAX 16

static void
check(enum soma_status status)
{
	if (status == SOMA_STATUS_OK)
		return;
	fprintf(stderr, "probe_backend: %s\n", soma_error_last()->text);
	exit(10 + (int)status);
}

static void
expect(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "probe_backend: %s\n", what);
	exit(1);
}

static void
use_blocks(const struct soma__backend *backend, struct soma_backend_stream *stream)
{
	uint64_t ptr[BLOCKS], size = 1;

	for (int i = 0; i < BLOCKS; i++, size *= 10) {
		check(backend->ops->alloc(backend->self, size, 0, stream, &ptr[i]));
		expect(ptr[i] != 0 && ptr[i] % 256 == 0, "a block is not aligned");
		if ((backend->capabilities & SOMA_BACKEND_HOST_ACCESSIBLE) != 0)
			memset((void *)(uintptr_t)ptr[i], i, size);
	}
	size = 1;
	for (int i = 0; i < BLOCKS; i++, size *= 10) {
		if ((backend->capabilities & SOMA_BACKEND_HOST_ACCESSIBLE) != 0)
			expect(*(unsigned char *)(uintptr_t)(ptr[i] + size - 1) == i, "blocks overlap");
		check(backend->ops->free(backend->self, ptr[i], size, stream));
	}
}

static void
use_stream(const struct soma__backend *backend)
{
	struct soma_backend_stream *stream;
	struct soma_backend_event *event;
	bool done;

	check(backend->ops->stream_create(backend->self, SOMA_BACKEND_STREAM_NON_BLOCKING, &stream));
	check(backend->ops->event_create(backend->self, 0, &event));
	use_blocks(backend, stream);
	check(backend->ops->event_record(backend->self, event, stream));
	check(backend->ops->event_synchronize(backend->self, event));
	check(backend->ops->event_query(backend->self, event, &done));
	expect(done, "an event that was waited for is not done");
	backend->ops->event_destroy(backend->self, event);
	backend->ops->stream_destroy(backend->self, stream);
}

int
main(int argc, char **argv)
{
	struct soma_backend_option options[OPTIONS_MAX];
	struct soma__backend_config config = { .options = options };
	struct soma_backend_info info;
	struct soma__backend *backend;
	char name[256];
	int c;

	while ((c = getopt(argc, argv, "s:o:")) != -1) {
		if (c == 's') {
			config.search = optarg;
		} else if (c == 'o' && strchr(optarg, '=') != NULL && config.option_count < OPTIONS_MAX) {
			char *equals = strchr(optarg, '=');
			*equals = '\0';
			options[config.option_count++] = (struct soma_backend_option){ optarg, equals + 1 };
		} else {
			return 2;
		}
	}
	if (optind + 1 != argc)
		return 2;
	config.name = argv[optind];
	check(soma__backend_open(&config, &backend));
	check(soma__backend_query(backend, &info));
	printf("%s (%s): %s, capabilities 0x%llx, %llu of %llu bytes free\n",
	       soma__backend_name(backend, name, sizeof name), backend->plugin->path, info.device_name,
	       (unsigned long long)info.capabilities, (unsigned long long)info.free,
	       (unsigned long long)info.total);
	use_blocks(backend, NULL);
	if ((info.capabilities & SOMA_BACKEND_STREAMS) != 0)
		use_stream(backend);
	soma__backend_close(backend);
	return 0;
}
