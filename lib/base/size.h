/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes as people write and read them.  Units are powers of 1024 throughout: K, M,
 * G, T, P or KiB, MiB, GiB, TiB, PiB.  No state.
 */
#ifndef SOMA_LIB_BASE_SIZE_H
#define SOMA_LIB_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads all of `text`: "4096", "64M", "1.5GiB", "0".  A fraction needs a unit and is
 * rounded down to whole bytes.  NULL, or what is wrong with the text ("is not a size:
 * ..."): no number, a sign, an unknown unit, more than 64 bits hold.  *bytes is then as
 * it was.
 */
const char *soma__size_parse(const char *text, uint64_t *bytes);

#define SOMA__SIZE_TEXT_MAX 16

/* "512 B", "20.0 MiB", "1.66 GiB": three significant digits.  Writes into `buffer`, of
 * SOMA__SIZE_TEXT_MAX bytes, and returns it. */
char *soma__size_format(char *buffer, uint64_t bytes);

#define SOMA__SIZE_EXACT_MAX 48

/* The same where it reads back as the same bytes, else with the bytes behind it: "20.0 MiB",
 * "3.10 MiB (3249138 bytes)".  `buffer` has SOMA__SIZE_EXACT_MAX bytes. */
char *soma__size_exact(char *buffer, uint64_t bytes);

#endif
