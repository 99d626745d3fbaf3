/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `make bench` runs and what it holds the figures to: three tables, no code
 * that runs anything.
 */
#ifndef SOMA_BENCH_PLAN_H
#define SOMA_BENCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum contender_id {
	CONTENDER_NONE, /* the driver's loop alone */
	CONTENDER_JEMALLOC,
	CONTENDER_MIMALLOC,
	CONTENDER_TREE,
	CONTENDER_SOMA,
	CONTENDER_SOMA_PLAIN,
	CONTENDER_SOMA_STREAMS,
	CONTENDER_SOMA_STRICT,
	CONTENDER_SOMA_RELEASE,
	CONTENDER_SOMA_PYTORCH,
	CONTENDER_SOMA_CUDA,
	CONTENDER_SOMA_MAPPED,
	CONTENDER_SOMA_CUDA_SYNC,
	CONTENDER_SOMA_MAPPED_SYNC,
	CONTENDER_COUNT
};

struct contender {
	const char *executable; /* peer-<this>, beside the harness */
	const char *variant;    /* of peer_soma.c */
	unsigned streams;
	unsigned sync_every; /* pairs; 0: never */
	const char *text;
};

extern const struct contender contenders[CONTENDER_COUNT];

enum scenario_id {
	SCENARIO_A,
	SCENARIO_B32K_1E3,
	SCENARIO_B32K_1E5,
	SCENARIO_B32K_1E6,
	SCENARIO_B64M_1E3,
	SCENARIO_B64M_1E5,
	SCENARIO_B4M_1E6,
	SCENARIO_C,
	SCENARIO_D_1E5,
	SCENARIO_D_1E6,
	SCENARIO_F_B64M, /* the next measure fragmentation */
	SCENARIO_F_B32K,
	SCENARIO_F_MIXED,
	SCENARIO_COUNT
};

struct scenario {
	char pattern;
	uint64_t cap;
	uint64_t live;
	uint64_t steps;
	bool track;          /* measures addresses, once, instead of time, repeatedly */
	unsigned contenders; /* bits: 1 << enum contender_id */
	const char *text;
};

extern const struct scenario scenarios[SCENARIO_COUNT];

enum target_kind {
	TARGET_TIME,          /* at most limit times the reference's time */
	TARGET_FRAGMENTATION, /* peak address over peak live: at most the reference's + limit */
	TARGET_METADATA,      /* bytes per live block: at most limit; no reference */
};

struct target {
	enum target_kind kind;
	enum scenario_id scenario;
	enum contender_id subject;
	enum contender_id reference;
	double limit;
	const char *unit; /* what the limit counts in: "J", "T", ... */
};

extern const struct target targets[];
extern const unsigned target_count;

#endif
