/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for random tests (splitmix64): a seed gives the same ones on every machine, in every run. */
#ifndef SOMA_TESTS_RANDOM_H
#define SOMA_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t
random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t
below(uint64_t *state, uint64_t n)
{
	return random_next(state) % n;
}

#endif
