/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what a capture left, to be run as one operation, in the order of the capture.
 *
 * Memory allocated in a capture is the graph's: its address is chosen then and kept until
 * the graph and its executable ones are gone; it is allocated anew by each launch.
 */
#include "tests/fake/state.h"

#include <stdlib.h>

struct fake_graph {
	struct handle handle;
	struct graph *graph;
};

struct fake_graph_exec {
	struct handle handle;
	struct graph *graph;
};

struct graph *
graph_new(void)
{
	struct graph *graph = calloc(1, sizeof *graph);

	if (graph == NULL)
		abort();
	graph->refs = 1;
	graph->tail = &graph->ops;
	return graph;
}

CUgraph
graph_handle(struct graph *graph)
{
	struct fake_graph *g = handle_new(KIND_GRAPH, sizeof *g, NULL);

	g->graph = graph;
	return g;
}

void
graph_handle_drop(CUgraph handle)
{
	graph_unref(handle->graph);
	handle->graph = NULL;
	handle_drop(handle);
}

void
graph_unref(struct graph *graph)
{
	if (--graph->refs != 0)
		return;
	while (graph->ops != NULL) {
		struct op *op = graph->ops;
		graph->ops = op->next;
		op_free(op);
	}
	for (unsigned i = 0; i < graph->owned_count; i++) {
		world.devices[graph->owned[i]->device].taken -= graph->regions[i]->bytes;
		region_unmap(graph->regions[i]);
		memory_unref(graph->owned[i]);
		free(graph->regions[i]);
	}
	free(graph->owned);
	free(graph->regions);
	free(graph);
}

static void
own(struct graph *graph, struct memory *m, struct region *region)
{
	unsigned n = graph->owned_count++;

	graph->owned = realloc(graph->owned, (n + 1) * sizeof *graph->owned);
	graph->regions = realloc(graph->regions, (n + 1) * sizeof *graph->regions);
	if (graph->owned == NULL || graph->regions == NULL)
		abort();
	memory_ref(m);
	graph->owned[n] = m;
	graph->regions[n] = region;
}

CUresult
graph_alloc(struct capture *capture, struct pool *pool, uint64_t bytes, struct memory **memory)
{
	struct device *d = &world.devices[pool->device];
	uint64_t rounded = (bytes + FAKE_SYNC_STEP - 1) / FAKE_SYNC_STEP * FAKE_SYNC_STEP;

	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (rounded < bytes || rounded > d->total || d->taken > d->total - rounded)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct region *region = calloc(1, sizeof *region);
	if (region == NULL)
		abort();
	if (!region_map(region, rounded, -1, 0)) {
		free(region);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	d->taken += rounded;
	struct memory *m = memory_new(MEMORY_GRAPH, region->address, bytes, rounded);
	m->device = pool->device;
	m->made_done = false;
	own(capture->graph, m, region);
	*memory = m;
	return CUDA_SUCCESS;
}

/* ---- executable graphs --------------------------------------------------------------------------- */

static CUresult
instantiate(CUgraphExec *exec, CUgraph graph)
{
	if (exec == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	struct fake_graph *g = handle_find(graph, KIND_GRAPH);
	if (g == NULL)
		return FAKE_STALE_HANDLE;
	struct fake_graph_exec *e = handle_new(KIND_GRAPH_EXEC, sizeof *e, NULL);
	e->graph = g->graph;
	e->graph->refs++;
	*exec = e;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	(void)flags;
	CALL(cuGraphInstantiateWithFlags, instantiate(exec, graph));
}

static bool
frees_itself(const struct graph *graph, const struct memory *m)
{
	for (const struct op *op = graph->ops; op != NULL; op = op->next)
		if (op->kind == OP_FREE && op->memory == m)
			return true;
	return false;
}

static CUresult
launch(CUgraphExec exec, CUstream stream, bool own_stream)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own_stream, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	struct fake_graph_exec *e = handle_find(exec, KIND_GRAPH_EXEC);
	if (e == NULL)
		return FAKE_STALE_HANDLE;
	struct graph *graph = e->graph;
	/* What the last launch allocated must have been freed. */
	for (unsigned i = 0; i < graph->owned_count; i++)
		if (graph->owned[i]->made.lane != NULL && !graph->owned[i]->freed)
			return CUDA_ERROR_INVALID_VALUE;
	struct op *op = op_new(OP_GRAPH, "cuGraphLaunch");
	op->graph = graph;
	graph->refs++;
	for (unsigned i = 0; i < graph->owned_count; i++) {
		struct memory *m = graph->owned[i];
		m->freed = frees_itself(graph, m);
		m->made = (struct dep){ lane, lane->submitted + 1 };
	}
	return submit(lane, op);
}

EXPORT CUresult
cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	CALL(cuGraphLaunch, launch(exec, stream, false));
}

EXPORT CUresult
cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream)
{
	CALL(cuGraphLaunch, launch(exec, stream, true));
}

static CUresult
graph_destroy(CUgraph graph)
{
	struct fake_graph *g = handle_find(graph, KIND_GRAPH);

	if (g == NULL)
		return FAKE_STALE_HANDLE;
	graph_handle_drop(g);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuGraphDestroy(CUgraph graph)
{
	CALL(cuGraphDestroy, graph_destroy(graph));
}

static CUresult
exec_destroy(CUgraphExec exec)
{
	struct fake_graph_exec *e = handle_find(exec, KIND_GRAPH_EXEC);

	if (e == NULL)
		return FAKE_STALE_HANDLE;
	graph_unref(e->graph);
	e->graph = NULL;
	handle_drop(e);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuGraphExecDestroy(CUgraphExec exec)
{
	CALL(cuGraphExecDestroy, exec_destroy(exec));
}

void
graphs_restart(void)
{
	for (struct handle *h = handle_first(KIND_GRAPH); h != NULL; h = h->next)
		if (h->live)
			graph_handle_drop((struct fake_graph *)(void *)h);
	for (struct handle *h = handle_first(KIND_GRAPH_EXEC); h != NULL; h = h->next)
		if (h->live)
			exec_destroy((struct fake_graph_exec *)(void *)h);
}
