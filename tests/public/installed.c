/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as a user writes it: installed headers, pkg-config's flags, nothing of
 * the tree.  It is also compiled as C++.  Exit status 0 when everything is as the
 * headers say.
 */
/* A name that programs use too: the headers leave it alone. */
#define X 17

#include <soma/soma.h>

#include <stdio.h>
#include <string.h>

#define EXPECT(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
			return 1;                                                               \
		}                                                                               \
	} while (0)

static void
hear(void *context, enum soma_log_level level, const char *text)
{
	(void)context;
	fprintf(stderr, "%d %s\n", (int)level, text);
}

static bool
count_extents(void *context, const struct soma_extent *extent)
{
	size_t *count = (size_t *)context;

	*count += extent->size > 0;
	return true;
}

static int
use_model(struct soma_model *model)
{
	struct soma_model_alloc first, second;
	struct soma_model_stats stats;
	size_t extents = 0;

	EXPECT(soma_model_alloc(model, 1000, 0, &first) == SOMA_STATUS_OK);
	EXPECT(soma_model_alloc(model, 0, 0, &second) == SOMA_STATUS_INVALID_VALUE);
	EXPECT(soma_error_last()->status == SOMA_STATUS_INVALID_VALUE);
	EXPECT(soma_error_last()->text[0] != '\0');
	EXPECT(soma_model_alloc(model, 1 << 20, 0, &second) == SOMA_STATUS_OUT_OF_DEVICE_MEMORY);
	EXPECT(soma_model_used(model) == 1000);
	soma_model_walk(model, count_extents, &extents);
	EXPECT(extents >= 1);
	EXPECT(soma_model_free(model, first.ptr, 0) == SOMA_STATUS_OK);
	EXPECT(soma_model_synchronize(model, 0) == SOMA_STATUS_OK);
	soma_model_stats(model, &stats, sizeof stats);
	EXPECT(stats.used == 0 && stats.used_high == 1000 && stats.alloc_count == 1);
	return 0;
}

int
main(void)
{
	struct soma_model_limits limits;
	struct soma_memory_info info;
	struct soma_model *model;

	EXPECT(X == 17);
	soma_log_set_sink(hear, NULL, SOMA_LOG_WARNING);
	EXPECT(strcmp(soma_version(), SOMA_VERSION_STRING) == 0);
	memset(&limits, 0, sizeof limits);
	limits.size = sizeof limits;
	limits.max_pool_size = 64 << 10;
	limits.policy = soma_policy_preset("strict");
	EXPECT(soma_model_create(&limits, &model) == SOMA_STATUS_OK);
	EXPECT(soma_model_memory_info(model, &info, sizeof info) == SOMA_STATUS_OK);
	EXPECT(info.resident > 0 && info.resident <= (128 << 10));
	int failed = use_model(model);
	soma_model_destroy(model);
	return failed;
}
