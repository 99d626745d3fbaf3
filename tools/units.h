/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantities as people read them.  Every function writes into the caller's buffer of
 * UNITS_MAX bytes and returns it.
 */
#ifndef SOMA_TOOLS_UNITS_H
#define SOMA_TOOLS_UNITS_H

#include <stdint.h>

#define UNITS_MAX 48 /* at least SOMA__SIZE_EXACT_MAX */

/* "1.66 GiB", "512 B": three significant digits, binary units. */
char *units_bytes(char *buffer, uint64_t bytes);

/* A power of two, of two or three digits at most: "512 B", "1 KiB", "64 MiB". */
char *units_power(char *buffer, unsigned power);

/* As units_bytes(), with the bytes behind it where three digits hide some: "3.10 MiB (3249138 bytes)". */
char *units_exact(char *buffer, uint64_t bytes);

/* "15,617" */
char *units_count(char *buffer, uint64_t count);

/* "94.0 %" of part in whole; "-" when whole is 0. */
char *units_percent(char *buffer, uint64_t part, uint64_t whole);

/* "1 block", "12,345 blocks" */
char *units_plural(char *buffer, uint64_t count, const char *noun);

/* "1 of 1 limit", "1 of 12,345 limits" */
char *units_part(char *buffer, uint64_t part, uint64_t whole, const char *noun);

/* "683 ms", "16.3 us", "95 ns": three digits, and seconds above 999 whole. */
char *units_time(char *buffer, uint64_t ns);

/* How many in a second: "12,345", "37.1", "0.025". */
char *units_rate(char *buffer, double rate);

#endif
