/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting "guard.tombstones" into a module and its key, and refusing what nobody has. */
#include "config.h"

#include "lib/plugin/options.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"

static const char *const chosen_by_auto[] = { "async", "sync", "host" };

static bool
has_prefix(const char *key, const char *name, size_t length)
{
	return strncmp(key, name, length) == 0 && key[length] == '.';
}

static const char *
key_at(const void *options, size_t index)
{
	return ((const struct soma_backend_option_info *)options)[index].key;
}

static bool
has_key(const struct soma_backend_module *module, const char *key)
{
	for (const struct soma_backend_option_info *row = module->options; row->key != NULL; row++)
		if (strcmp(row->key, key) == 0)
			return true;
	return false;
}

static enum soma_status
check_key(const struct soma_backend_module *module, const char *key)
{
	if (module->options == NULL || module->options->key == NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "%s.%.63s: the backend %s has no options",
					module->name, key, module->name);
	if (has_key(module, key))
		return SOMA_STATUS_OK;
	const char *near = soma__name_near(key, strlen(key), key_at, module->options);
	if (near == NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"there is no option \"%s.%.63s\"; soma info --options lists those of %s",
					module->name, key, module->name);
	return soma__error_text(SOMA_STATUS_INVALID_VALUE,
				"there is no option \"%s.%.63s\"; the nearest is \"%s.%s\"", module->name,
				key, module->name, near);
}

enum soma_status
soma__backend_options(const struct soma__backend_config *config, const struct soma_backend_module *module,
		      struct soma_backend_option *mine, size_t *count)
{
	size_t length = strlen(module->name), found = 0;

	for (size_t i = 0; i < config->option_count; i++) {
		const struct soma_backend_option *option = &config->options[i];
		if (!has_prefix(option->key, module->name, length))
			continue;
		enum soma_status status = check_key(module, option->key + length + 1);
		if (status != SOMA_STATUS_OK)
			return status;
		if (mine != NULL)
			mine[found] = (struct soma_backend_option){ option->key + length + 1, option->value };
		found++;
	}
	*count = found;
	return SOMA_STATUS_OK;
}

static bool
is_named(const char *name, const char *key)
{
	for (const char *at = name;; at++) {
		size_t length = strcspn(at, ":");
		if (has_prefix(key, at, length))
			return true;
		for (unsigned i = 0; length == 4 && memcmp(at, "auto", 4) == 0 && i < 3; i++)
			if (has_prefix(key, chosen_by_auto[i], strlen(chosen_by_auto[i])))
				return true;
		at += length;
		if (*at == '\0')
			return false;
	}
}

struct nearest {
	const char *key;
	size_t distance;
	char name[128]; /* "": none is near */
};

/* Of what can be loaded; that something cannot is not what is wrong here. */
static void
look_in_module(struct nearest *nearest, const char *search, const char *name)
{
	const struct soma__plugin *plugin;
	char full[128];

	if (soma__plugin_find(search, name, &plugin) != SOMA_STATUS_OK || plugin->module.options == NULL)
		return;
	for (const struct soma_backend_option_info *row = plugin->module.options; row->key != NULL; row++) {
		snprintf(full, sizeof full, "%s.%s", name, row->key);
		size_t distance = soma__name_distance(nearest->key, strlen(nearest->key), full);
		if (distance < nearest->distance) {
			nearest->distance = distance;
			memcpy(nearest->name, full, sizeof full);
		}
	}
}

/* In all modules that the config names, or that `auto` might choose. */
static void
look_in_all(struct nearest *nearest, const struct soma__backend_config *config)
{
	char name[64];

	for (const char *at = config->name;; at++) {
		size_t length = strcspn(at, ":");
		snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, at);
		if (strcmp(name, "auto") != 0)
			look_in_module(nearest, config->search, name);
		for (unsigned i = 0; strcmp(name, "auto") == 0 && i < 3; i++)
			look_in_module(nearest, config->search, chosen_by_auto[i]);
		at += length;
		if (*at == '\0')
			return;
	}
}

/* The module that the key's name stands for, though the config does not; NULL: there is none. */
static const struct soma_backend_module *
module_of(const struct soma__backend_config *config, const char *key)
{
	const struct soma__plugin *plugin;
	char name[64];
	size_t length = strcspn(key, ".");

	snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, key);
	return soma__plugin_find(config->search, name, &plugin) == SOMA_STATUS_OK ? &plugin->module : NULL;
}

static enum soma_status
refuse_key(const struct soma__backend_config *config, const char *key)
{
	struct nearest nearest = { .key = key, .distance = soma__name_limit(strlen(key)) };
	const struct soma_backend_module *module = module_of(config, key);

	if (module != NULL && module->wraps != 0)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"the option \"%.63s\" is for the backend %s, and the backend is \"%.63s\"; "
					"write backend=%s:%.63s",
					key, module->name, config->name, module->name, config->name);
	if (module != NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"the option \"%.63s\" is for the backend %s, and the backend is \"%.63s\"",
					key, module->name, config->name);
	look_in_all(&nearest, config);
	return soma__error_text(SOMA_STATUS_INVALID_VALUE,
				"the option \"%.63s\" is of no backend in \"%.63s\"%s%s%s", key, config->name,
				nearest.name[0] != '\0' ? "; the nearest is \"" : "", nearest.name,
				nearest.name[0] != '\0' ? "\"" : "");
}

enum soma_status
soma__backend_options_check(const struct soma__backend_config *config)
{
	for (size_t i = 0; i < config->option_count; i++)
		if (!is_named(config->name, config->options[i].key))
			return refuse_key(config, config->options[i].key);
	return SOMA_STATUS_OK;
}
