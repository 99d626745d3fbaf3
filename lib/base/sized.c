/* SPDX-License-Identifier: Apache-2.0 */
/* Reading structs that say their size.  Pure; any thread. */
#include "lib/base/sized.h"

#include <string.h>

#include "lib/base/error.h"

enum soma_status
soma__struct_read(const char *name, const void *given, size_t size, void *known, size_t known_size)
{
	const unsigned char *bytes = given;

	if (size < known_size)
		return soma__error(SOMA_STATUS_INVALID_VALUE,
				   "%s: size is %" PRIu64 ", expected at least %" PRIu64,
				   (struct soma__error_args){ .name = name, .arg = { size, known_size } });
	for (size_t i = known_size; i < size; i++)
		if (bytes[i] != 0)
			return soma__error(
				SOMA_STATUS_INVALID_VALUE,
				"%s: byte %" PRIu64 " of %" PRIu64
				" is set, and this version knows only %" PRIu64,
				(struct soma__error_args){ .name = name, .arg = { i, size, known_size } });
	memcpy(known, given, known_size);
	memcpy(known, &known_size, sizeof known_size); /* all of them begin with it */
	return SOMA_STATUS_OK;
}
