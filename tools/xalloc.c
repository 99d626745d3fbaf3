/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is there or ends the command.
 */
#include "tools/xalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"

void *
xchecked(void *memory)
{
	if (memory != NULL)
		return memory;
	fputs("soma: out of memory\n", stderr);
	exit(EXIT_INPUT);
}

void *
xcalloc(size_t count, size_t size)
{
	return xchecked(calloc(count > 0 ? count : 1, size > 0 ? size : 1));
}

void *
xreallocarray(void *memory, size_t count, size_t size)
{
	if (size != 0 && count > SIZE_MAX / size)
		return xchecked(NULL);
	return xchecked(realloc(memory, count * size > 0 ? count * size : 1));
}

char *
xstrdup(const char *text)
{
	return xchecked(strdup(text));
}

void *
xgrow(void *array, size_t *room, size_t count, size_t size)
{
	if (count < *room)
		return array;
	*room = *room > 0 ? *room * 2 : 16;
	return xreallocarray(array, *room, size);
}
