/* SPDX-License-Identifier: Apache-2.0 */
/* The tables: who runs which scenario, and the figures that are aimed at. */
#include "bench/plan.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define BIT(name) (1u << CONTENDER_##name)
#define PEERS (BIT(NONE) | BIT(TREE) | BIT(SOMA))
#define CUDA_PEERS (BIT(SOMA_CUDA) | BIT(SOMA_MAPPED))
#define SMALL_PEERS (PEERS | BIT(JEMALLOC) | BIT(MIMALLOC))

const struct contender contenders[CONTENDER_COUNT] = {
	[CONTENDER_NONE] = { .executable = "none", .streams = 1, .text = "no allocator: the loop" },
	[CONTENDER_JEMALLOC] = { .executable = "jemalloc", .streams = 1, .text = "J: jemalloc malloc+free" },
	[CONTENDER_MIMALLOC] = { .executable = "mimalloc", .streams = 1, .text = "mimalloc malloc+free" },
	[CONTENDER_TREE] = { .executable = "tree", .streams = 1, .text = "T: ordered-set best fit" },
	[CONTENDER_SOMA] = { .executable = "soma", .streams = 1, .text = "soma model" },
	[CONTENDER_SOMA_PLAIN] = { .executable = "soma",
				   .variant = "plain-pages",
				   .streams = 1,
				   .text = "soma model, 4 KiB pages" },
	[CONTENDER_SOMA_STREAMS] = { .executable = "soma", .streams = 8, .text = "soma model, 8 streams" },
	[CONTENDER_SOMA_STRICT] = { .executable = "soma",
				    .variant = "strict",
				    .streams = 1,
				    .sync_every = 500,
				    .text = "soma strict, keeps all" },
	[CONTENDER_SOMA_RELEASE] = { .executable = "soma",
				     .variant = "strict-release",
				     .streams = 1,
				     .sync_every = 500,
				     .text = "soma strict, keeps none" },
	[CONTENDER_SOMA_PYTORCH] = { .executable = "soma",
				     .variant = "pytorch",
				     .streams = 1,
				     .text = "soma pytorch" },
	[CONTENDER_SOMA_CUDA] = { .executable = "soma",
				  .variant = "cuda",
				  .streams = 1,
				  .text = "soma cuda" },
	[CONTENDER_SOMA_MAPPED] = { .executable = "soma",
				    .variant = "soma",
				    .streams = 1,
				    .text = "soma policy soma" },
	[CONTENDER_SOMA_CUDA_SYNC] = { .executable = "soma",
				       .variant = "cuda",
				       .streams = 1,
				       .sync_every = 500,
				       .text = "soma cuda, waits" },
	[CONTENDER_SOMA_MAPPED_SYNC] = { .executable = "soma",
					 .variant = "soma",
					 .streams = 1,
					 .sync_every = 500,
					 .text = "soma policy soma, waits" },
};

const struct scenario scenarios[SCENARIO_COUNT] = {
	[SCENARIO_A] = { .text = "a LIFO",
			 .pattern = 'a',
			 .cap = 32 * KIB,
			 .live = 300,
			 .steps = 10000000,
			 .contenders = SMALL_PEERS },
	[SCENARIO_B32K_1E3] = { .text = "b 32 KiB 1e3",
				.pattern = 'b',
				.cap = 32 * KIB,
				.live = 1000,
				.steps = 4000000,
				.contenders = SMALL_PEERS },
	[SCENARIO_B32K_1E5] = { .text = "b 32 KiB 1e5",
				.pattern = 'b',
				.cap = 32 * KIB,
				.live = 100000,
				.steps = 3000000,
				.contenders = SMALL_PEERS | CUDA_PEERS },
	[SCENARIO_B32K_1E6] = { .text = "b 32 KiB 1e6",
				.pattern = 'b',
				.cap = 32 * KIB,
				.live = 1000000,
				.steps = 2000000,
				.contenders = SMALL_PEERS | BIT(SOMA_PLAIN) },
	[SCENARIO_B64M_1E3] = { .text = "b 64 MiB 1e3",
				.pattern = 'b',
				.cap = 64 * MIB,
				.live = 1000,
				.steps = 3000000,
				.contenders = PEERS | CUDA_PEERS },
	[SCENARIO_B64M_1E5] = { .text = "b 64 MiB 1e5",
				.pattern = 'b',
				.cap = 64 * MIB,
				.live = 100000,
				.steps = 2000000,
				.contenders = PEERS | BIT(SOMA_STREAMS) | BIT(SOMA_STRICT) |
					      BIT(SOMA_RELEASE) | BIT(SOMA_PYTORCH) | CUDA_PEERS |
					      BIT(SOMA_CUDA_SYNC) | BIT(SOMA_MAPPED_SYNC) },
	[SCENARIO_B4M_1E6] = { .text = "b 4 MiB 1e6",
			       .pattern = 'b',
			       .cap = 4 * MIB,
			       .live = 1000000,
			       .steps = 2000000,
			       .contenders = PEERS | BIT(SOMA_PLAIN) },
	[SCENARIO_C] = { .text = "c bundled example",
			 .pattern = 'c',
			 .cap = 32 * KIB,
			 .live = 1,
			 .steps = 4000000,
			 .contenders = PEERS },
	[SCENARIO_D_1E5] = { .text = "d 4 MiB 1e5",
			     .pattern = 'd',
			     .cap = 4 * MIB,
			     .live = 100000,
			     .steps = 1000000,
			     .contenders = PEERS },
	[SCENARIO_D_1E6] = { .text = "d 4 MiB 1e6",
			     .pattern = 'd',
			     .cap = 4 * MIB,
			     .live = 1000000,
			     .steps = 2000000,
			     .contenders = PEERS },
	[SCENARIO_F_B64M] = { .text = "f b 64 MiB 1e5",
			      .pattern = 'b',
			      .cap = 64 * MIB,
			      .live = 100000,
			      .steps = 2000000,
			      .track = true,
			      .contenders = BIT(TREE) | BIT(SOMA) },
	[SCENARIO_F_B32K] = { .text = "f b 32 KiB 1e5",
			      .pattern = 'b',
			      .cap = 32 * KIB,
			      .live = 100000,
			      .steps = 2000000,
			      .track = true,
			      .contenders = BIT(TREE) | BIT(SOMA) },
	[SCENARIO_F_MIXED] = { .text = "f mixed 64 MiB 1e4",
			       .pattern = 'm',
			       .cap = 64 * MIB,
			       .live = 10000,
			       .steps = 2000000,
			       .track = true,
			       .contenders = BIT(TREE) | BIT(SOMA) },
};

#define TIME(where, who, factor, whom, of)                                                     \
	{                                                                                      \
		.kind = TARGET_TIME, .scenario = SCENARIO_##where, .subject = CONTENDER_##who, \
		.reference = CONTENDER_##whom, .limit = factor, .unit = of                     \
	}
#define PEAK(where)                                                                                    \
	{                                                                                              \
		.kind = TARGET_FRAGMENTATION, .scenario = SCENARIO_##where, .subject = CONTENDER_SOMA, \
		.reference = CONTENDER_TREE, .limit = 0.005, .unit = "exact best fit"                  \
	}
#define RECORDS(where, who)                                                                        \
	{                                                                                          \
		.kind = TARGET_METADATA, .scenario = SCENARIO_##where, .subject = CONTENDER_##who, \
		.limit = 56, .unit = "B per live block"                                            \
	}

const struct target targets[] = {
	TIME(A, SOMA, 1.2, JEMALLOC, "J"),
	TIME(B32K_1E3, SOMA, 1.8, JEMALLOC, "J"),
	TIME(B32K_1E5, SOMA, 0.8, JEMALLOC, "J"),
	TIME(B32K_1E6, SOMA, 0.75, JEMALLOC, "J"),
	TIME(B64M_1E3, SOMA, 0.16, TREE, "T"),
	TIME(B64M_1E5, SOMA, 0.10, TREE, "T"),
	TIME(B4M_1E6, SOMA, 0.09, TREE, "T"),
	TIME(C, SOMA, 0.14, TREE, "T"),
	TIME(D_1E5, SOMA, 0.06, TREE, "T"),
	TIME(D_1E6, SOMA, 0.05, TREE, "T"),
	PEAK(F_B64M),
	PEAK(F_B32K),
	PEAK(F_MIXED),
	RECORDS(B32K_1E6, SOMA),
	RECORDS(B4M_1E6, SOMA),
	TIME(B32K_1E6, SOMA, 0.92, SOMA_PLAIN, "4 KiB pages"),
	TIME(B4M_1E6, SOMA, 0.92, SOMA_PLAIN, "4 KiB pages"),
	TIME(B64M_1E5, SOMA_STREAMS, 1.3, SOMA, "one stream"),
	TIME(B64M_1E5, SOMA_STRICT, 1.3, SOMA, "reuse at once"),
	TIME(B64M_1E5, SOMA_RELEASE, 1.3, SOMA, "reuse at once"),
	TIME(B64M_1E5, SOMA_PYTORCH, 0.5, TREE, "T"),
	TIME(B32K_1E5, SOMA_MAPPED, 1.3, SOMA_CUDA, "cuda"),
	TIME(B64M_1E3, SOMA_MAPPED, 1.3, SOMA_CUDA, "cuda"),
	TIME(B64M_1E5, SOMA_MAPPED, 1.3, SOMA_CUDA, "cuda"),
	TIME(B64M_1E5, SOMA_MAPPED_SYNC, 1.3, SOMA_CUDA_SYNC, "cuda"),
};

const unsigned target_count = sizeof targets / sizeof targets[0];
