/* SPDX-License-Identifier: Apache-2.0 */
/* Which options of a configuration are a module's.  No state. */
#ifndef SOMA_LIB_PLUGIN_OPTIONS_H
#define SOMA_LIB_PLUGIN_OPTIONS_H

#include "lib/plugin/backend.h"
#include "lib/plugin/plugin.h"

/* How many of the config's options are `module`'s; with `mine` not NULL they are put there, without
 * the module's name.  INVALID_VALUE: one is not in the module's table. */
enum soma_status soma__backend_options(const struct soma__backend_config *config,
				       const struct soma_backend_module *module,
				       struct soma_backend_option *mine, size_t *count);

/* INVALID_VALUE for an option of a module that the config does not name. */
enum soma_status soma__backend_options_check(const struct soma__backend_config *config);

#endif
