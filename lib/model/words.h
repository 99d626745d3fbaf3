/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at 32 words side by side: which are large enough, and which is the largest.
 *
 * The words are 0, or from SOMA__WORD_MIN to SOMA__WORD_MAX: there the order of words is that of the
 * floating-point numbers which they are too, none of them denormal or infinite; and vectors find the largest
 * number in one step where they need four for words.
 */
#ifndef SOMA_LIB_MODEL_WORDS_H
#define SOMA_LIB_MODEL_WORDS_H

#include <stdint.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define SOMA__WORDS 32
#define SOMA__WORD_MIN ((uint32_t)1 << 23)
#define SOMA__WORD_MAX ((uint32_t)0x7f7fffff)

#ifdef __SSE2__

/* One bit for each word of four comparisons of four. */
static inline uint32_t
soma__words_bits(__m128i a, __m128i b, __m128i c, __m128i d)
{
	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)));
}

/* Of half a node. */
static inline uint32_t
soma__words_half_above(const uint32_t *words, __m128i limit)
{
	const __m128i *four = (const __m128i *)(const void *)words;

	return soma__words_bits(_mm_cmpgt_epi32(four[0], limit), _mm_cmpgt_epi32(four[1], limit),
				_mm_cmpgt_epi32(four[2], limit), _mm_cmpgt_epi32(four[3], limit));
}

/* One bit for each word that is at least this, which is not 0. */
static inline uint32_t
soma__words_at_least(const uint32_t words[SOMA__WORDS], uint32_t least)
{
	__m128i limit = _mm_set1_epi32((int)least - 1);

	return soma__words_half_above(words, limit) | soma__words_half_above(words + SOMA__WORDS / 2, limit)
							      << SOMA__WORDS / 2;
}

/* The four largest of half a node. */
static inline __m128
soma__words_half_most(const uint32_t *words)
{
	const __m128 *four = (const __m128 *)(const void *)words;

	return _mm_max_ps(_mm_max_ps(four[0], four[1]), _mm_max_ps(four[2], four[3]));
}

static inline uint32_t
soma__words_most(const uint32_t words[SOMA__WORDS])
{
	__m128 most =
		_mm_max_ps(soma__words_half_most(words), soma__words_half_most(words + SOMA__WORDS / 2));

	most = _mm_max_ps(most, _mm_movehl_ps(most, most));
	most = _mm_max_ps(most, _mm_shuffle_ps(most, most, 1));
	return (uint32_t)_mm_cvtsi128_si32(_mm_castps_si128(most));
}

/* Of any aligned words, as a vector: one that is read from what was just stored as a word would wait for
 * that store. */
static inline void
soma__words_set(uint32_t *words, uint32_t i, uint32_t word)
{
	__m128i *four = (__m128i *)(void *)(words + (i & ~3U));
	__m128i place = _mm_cmpeq_epi32(_mm_set1_epi32((int)(i & 3)), _mm_setr_epi32(0, 1, 2, 3));
	__m128i set = _mm_and_si128(place, _mm_set1_epi32((int)word));

	_mm_store_si128(four, _mm_or_si128(_mm_andnot_si128(place, _mm_load_si128(four)), set));
}

#else

static inline void
soma__words_set(uint32_t *words, uint32_t i, uint32_t word)
{
	words[i] = word;
}

static inline uint32_t
soma__words_at_least(const uint32_t words[SOMA__WORDS], uint32_t least)
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < SOMA__WORDS; i++)
		bits |= (uint32_t)(words[i] >= least) << i;
	return bits;
}

static inline uint32_t
soma__words_most(const uint32_t words[SOMA__WORDS])
{
	uint32_t most = 0;

	for (unsigned i = 0; i < SOMA__WORDS; i++)
		most = words[i] > most ? words[i] : most;
	return most;
}

#endif

#endif
