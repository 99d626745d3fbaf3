/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration for people: the runtime's table, then those of the modules that are found. */
#include <stdio.h>

#include "lib/plugin/plugin.h"
#include "lib/runtime/runtime.h"

struct walk {
	bool (*visit)(void *context, const struct soma_option_info *option);
	void *context;
	bool stopped;
};

/* What stands behind an earlier folder's module of this name, or cannot be loaded, has no keys here. */
static void
walk_module(void *context, const struct soma__plugin *plugin)
{
	struct walk *walk = context;
	char name[160];

	for (const struct soma_backend_option_info *row = plugin->module.options;
	     !walk->stopped && row != NULL && row->key != NULL; row++) {
		snprintf(name, sizeof name, "%s.%s", plugin->module.name, row->key);
		walk->stopped = !walk->visit(walk->context,
					     &(struct soma_option_info){ .name = name,
									 .default_text = row->default_text,
									 .doc = row->doc,
									 .module = plugin->module.name });
	}
}

enum soma_status
soma_runtime_walk_options(const char *search,
			  bool (*visit)(void *context, const struct soma_option_info *option), void *context)
{
	struct walk walk = { .visit = visit, .context = context };

	for (const struct soma__option *row = soma__runtime_options; row->name != NULL; row++)
		if (!visit(context, &(struct soma_option_info){ .name = row->name,
								.default_text = row->default_text,
								.doc = row->doc }))
			return SOMA_STATUS_OK;
	return soma__plugin_each(search, walk_module, &walk);
}
