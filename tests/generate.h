/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences: from a seed, a policy, limits, and then one operation after the
 * other, chosen in view of what the earlier ones gave.  The same seed gives the same
 * sequence as long as the engines give the same answers.
 */
#ifndef SOMA_TESTS_GENERATE_H
#define SOMA_TESTS_GENERATE_H

#include "tests/sequence.h"

#define OP_KINDS (OP_RELEASE_SEGMENT + 1)
#define GENERATE_CUSTOM NULL

struct label_list {
	unsigned at[512];
	unsigned count;
};

struct generator {
	uint64_t state;
	struct sequence *sequence;
	unsigned weight[OP_KINDS];
	unsigned live_target;
	uint64_t granules;   /* of a typical large request */
	uint64_t palette[8]; /* sizes that come again and again */
	uint64_t page;       /* blocks of a few of these are wanted; 0: none */
	unsigned next_label;
	struct label_list live;    /* allocs */
	struct label_list dead;    /* freed ones */
	struct label_list streams; /* all but the legacy one and those gone long ago */
	struct label_list events;
};

uint64_t generate_random(struct generator *g);
uint64_t generate_below(struct generator *g, uint64_t limit);
bool generate_one_in(struct generator *g, uint64_t n);

/* 1 to limit, every magnitude as likely as the next. */
uint64_t generate_log_uniform(struct generator *g, uint64_t limit);

/* Parts of generate_begin(). */
void generate_policy(struct generator *g, struct soma_policy *p);
uint64_t generate_typical_granules(struct generator *g, const struct soma_policy *p);
void generate_limits(struct generator *g, struct sequence *sequence);

/* Fills in the policy (the preset of this name, or a random one) and the limits of an
 * empty sequence that will have up to `count` operations. */
void generate_begin(struct generator *g, uint64_t seed, const char *preset, unsigned count,
		    struct sequence *sequence);

/* A random policy and limits with up to two things in them that are odd: mostly what a
 * create must refuse.  The limits point to the policy and to the source. */
void generate_odd_limits(struct generator *g, uint64_t seed, struct soma_policy *policy,
			 struct soma_segment_source *source, struct soma_model_limits *limits);

/* Appends one operation to the sequence, runs it and learns from the result. */
bool generate_step(struct generator *g, struct run *run);

#endif
