/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes as people write them.
 */
#include "tools/size.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
size_parse(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGTPE";
	char *end;
	double value;
	const char *unit;

	if (!isdigit((unsigned char)text[0]))
		return false;
	value = strtod(text, &end);
	unit = *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit != NULL) {
		value = ldexp(value, 10 * (int)(unit - units + 1));
		end++;
		if (*end == 'i')
			end++;
	}
	if (*end == 'B')
		end++;
	if (*end != '\0' || !(value < 0x1p63))
		return false;
	*bytes = (uint64_t)value;
	return true;
}
