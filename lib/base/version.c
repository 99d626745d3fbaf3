/* SPDX-License-Identifier: Apache-2.0 */
#include <soma/version.h>

const char *
soma_version(void)
{
	return SOMA_VERSION_STRING;
}
