/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs that begin with their size.  A caller built against later headers passes a
 * larger one: it is accepted if the part that this version does not know is zero.
 */
#ifndef SOMA_LIB_BASE_SIZED_H
#define SOMA_LIB_BASE_SIZED_H

#include <stddef.h>

#include <soma/status.h>

/*
 * Copies the known part of a caller's struct and sets its size to `known`.
 * INVALID_VALUE, naming the struct by `name`: `size` is smaller than any version had,
 * or what lies beyond is not zero.
 */
enum soma_status soma__struct_read(const char *name, const void *given, size_t size, void *known,
				   size_t known_size);

#endif
