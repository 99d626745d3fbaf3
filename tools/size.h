/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes as people write them.
 */
#ifndef SOMA_TOOLS_SIZE_H
#define SOMA_TOOLS_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* "4096", "64K", "1.5G", "16GiB": powers of 1024.  false: it is no size. */
bool size_parse(const char *text, uint64_t *bytes);

#endif
