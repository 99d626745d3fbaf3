/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration string, printed from the library's table: `soma info --options` and soma.conf(5). */
#ifndef SOMA_TOOLS_CONF_H
#define SOMA_TOOLS_CONF_H

#include <stdbool.h>

/* search: as soma_runtime_walk_options() takes it.  False: an error, which was printed. */
bool conf_print_table(const char *search, bool json);

/* Only keys of the modules that come with soma.  False when one of these is not found. */
bool conf_print_mdoc(void);

#endif
