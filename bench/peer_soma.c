/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model through its public interface.  Its plain form has the placement of
 * `strict`, the reuse rules and batching of `cuda` (policies are data) and 256-byte
 * alignment, so that a free can be reused at once, as in the other peers.
 */
#include "bench/peer.h"

#include <inttypes.h>
#include <string.h>

#include <soma/soma.h>

#include "lib/arena/arena.h"

#define STREAMS_MAX 64

struct model_peer {
	struct soma_model *model;
	unsigned stream_count;
	uint64_t streams[STREAMS_MAX];
};

struct variant {
	const char *name;
	const char *policy;
	bool reuse_of_cuda;
	bool aligned_256;
	bool plain_pages;
	uint64_t release_threshold;
};

static const struct variant variants[] = {
	{ "", "strict", true, true, false, UINT64_MAX },
	{ "plain-pages", "strict", true, true, true, UINT64_MAX },
	{ "strict", "strict", false, true, false, UINT64_MAX },
	{ "strict-release", "strict", false, true, false, 0 },
	{ "pytorch", "pytorch", false, false, false, UINT64_MAX },
	{ "cuda", "cuda", false, false, false, UINT64_MAX },
	{ "soma", "soma", false, false, false, UINT64_MAX },
};

static void
check(enum soma_status status, const char *what)
{
	if (status != SOMA_STATUS_OK)
		peer_fail("%s: %s", what, soma_error_last()->text);
}

static uint64_t
model_alloc(void *context, uint64_t size, unsigned stream)
{
	struct model_peer *peer = context;
	struct soma_model_alloc alloc;

	check(soma_model_alloc(peer->model, size, peer->streams[stream], &alloc), "soma_model_alloc");
	return alloc.ptr;
}

static void
model_free(void *context, uint64_t ptr, unsigned stream)
{
	struct model_peer *peer = context;

	check(soma_model_free(peer->model, ptr, peer->streams[stream]), "soma_model_free");
}

static void
model_synchronize(void *context)
{
	struct model_peer *peer = context;

	for (unsigned i = 0; i < peer->stream_count; i++)
		check(soma_model_synchronize(peer->model, peer->streams[i]), "soma_model_synchronize");
}

static uint64_t
model_resident(void *context)
{
	struct model_peer *peer = context;
	struct soma_memory_info info;

	check(soma_model_memory_info(peer->model, &info, sizeof info), "soma_model_memory_info");
	return info.resident;
}

static const struct variant *
variant_named(const char *name)
{
	for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
		if (strcmp(variants[i].name, name) == 0)
			return &variants[i];
	peer_fail("no variant \"%s\"", name);
}

static void
make_policy(const struct variant *variant, struct soma_policy *policy)
{
	const struct soma_policy *cuda = soma_policy_preset("cuda");

	*policy = *soma_policy_preset(variant->policy);
	if (variant->reuse_of_cuda) {
		policy->reuse = cuda->reuse;
		policy->batch = cuda->batch;
		policy->batch_above = cuda->batch_above;
	}
	if (variant->aligned_256) {
		policy->alignment = BENCH_GRANULE;
		policy->pools[0].segment_step = BENCH_GRANULE;
		policy->pools[0].split_min = 1;
	}
}

void
peer_open(const struct peer_options *options, struct bench_allocator *allocator)
{
	static struct model_peer peer;
	const struct variant *variant = variant_named(options->variant);
	struct soma_policy policy;
	struct soma_model_limits limits = {
		.size = sizeof limits,
		.release_threshold = variant->release_threshold,
		.policy = &policy,
	};

	if (options->streams > STREAMS_MAX)
		peer_fail("at most %d streams", STREAMS_MAX);
	make_policy(variant, &policy);
	if (variant->plain_pages)
		soma__arena_set_huge_pages(false);
	check(soma_model_create(&limits, &peer.model), "soma_model_create");
	peer.stream_count = options->streams;
	for (unsigned i = 0; i < options->streams; i++)
		check(soma_model_stream_create(peer.model, SOMA_STREAM_NON_BLOCKING, &peer.streams[i]),
		      "soma_model_stream_create");
	*allocator = (struct bench_allocator){ .context = &peer,
					       .alloc = model_alloc,
					       .free = model_free,
					       .synchronize = model_synchronize,
					       .resident = model_resident };
}
