/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lib/plugin lists, as text and as JSON.  Texts of modules are other people's: they are cleaned.
 */
#include "tools/backends.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/plugin/plugin.h"
#include "tools/report/report.h"
#include "tools/report/values.h"
#include "tools/units.h"
#include "tools/xalloc.h"

#define LABEL_WIDTH 18
#define WIDTH 79

/* X(capability, text) */
#define CAPABILITY_MAP(X)                                                     \
	X(SOMA_BACKEND_STREAM_ORDERED, "stream-ordered alloc and free")       \
	X(SOMA_BACKEND_USE_TRACKING, "use tracking")                          \
	X(SOMA_BACKEND_CAPTURE, "graph capture")                              \
	X(SOMA_BACKEND_HOST_ACCESSIBLE, "memory the host reaches")            \
	X(SOMA_BACKEND_KEEPS_FREED, "keeps freed memory back")                \
	X(SOMA_BACKEND_LOST, "LOST: beyond use after an error of the device") \
	X(SOMA_BACKEND_STREAMS, "streams and events")                         \
	X(SOMA_BACKEND_FILLS, "fills and copies")                             \
	X(SOMA_BACKEND_SCANS, "scans")                                        \
	X(SOMA_BACKEND_SPANS, "address ranges apart from memory")             \
	X(SOMA_BACKEND_POOL, "a pool")                                        \
	X(SOMA_BACKEND_EXPORTS, "sharing with other processes")               \
	X(SOMA_BACKEND_PEERS, "access by other devices")                      \
	X(SOMA_BACKEND_USES, "declared uses")                                 \
	X(SOMA_BACKEND_GUARD, "a guard")                                      \
	X(SOMA_BACKEND_STEPS, "streams that run when told")

static const struct {
	uint64_t bit;
	const char *text;
} capabilities[] = {
#define X(capability, name) { capability, name },
	CAPABILITY_MAP(X)
#undef X
};

#define CAPABILITIES (sizeof capabilities / sizeof capabilities[0])

static size_t
count_options(const struct soma_backend_module *module)
{
	size_t count = 0;

	while (module->options != NULL && module->options[count].key != NULL)
		count++;
	return count;
}

static bool
wraps(const struct soma__plugin_seen *seen)
{
	return seen->plugin != NULL && seen->plugin->module.wraps != 0;
}

/* ---- text -------------------------------------------------------------------------- */

static void
line(const char *label, const char *value)
{
	char *clean = report_clean(value);

	printf("    %-*s%s\n", LABEL_WIDTH - 2, label, clean);
	free(clean);
}

static void
print_capabilities(uint64_t has)
{
	size_t column = WIDTH;
	const char *label = "can do", *separator = "";

	for (size_t i = 0; i < CAPABILITIES; i++) {
		if (!(has & capabilities[i].bit))
			continue;
		if (column + 3 + strlen(capabilities[i].text) > WIDTH) {
			printf("%s%s    %-*s", separator, separator[0] != '\0' ? "\n" : "", LABEL_WIDTH - 2,
			       label);
			column = LABEL_WIDTH + 2;
			label = separator = "";
		}
		column += (size_t)printf("%s%s%s", separator, separator[0] != '\0' ? " " : "",
					 capabilities[i].text);
		separator = ",";
	}
	printf("%s\n", column == WIDTH ? "    can do          no more than it must" : "");
}

static void
print_info(const struct soma_backend_info *info, int devices)
{
	char text[160], total[UNITS_MAX], left[UNITS_MAX];

	snprintf(text, sizeof text, "%.95s", info->device_name);
	line("device 0", text);
	if (devices > 1) {
		snprintf(text, sizeof text, "%d", devices);
		line("devices", text);
	}
	snprintf(text, sizeof text, "%s, %s free", units_bytes(total, info->total),
		 units_bytes(left, info->free));
	line("memory", text);
	snprintf(text, sizeof text, "%s, blocks aligned to %s", units_bytes(total, info->granularity),
		 units_bytes(left, info->alignment));
	line("granularity", text);
	if (info->driver_version != 0) {
		snprintf(text, sizeof text, "%d", info->driver_version);
		line("driver", text);
	}
	print_capabilities(info->capabilities);
}

static void
print_module(const struct soma_backend_module *module)
{
	size_t options = count_options(module);
	char text[64];

	line("what it is", module->description);
	snprintf(text, sizeof text, "%.32s, interface %" PRIu32, module->version, module->abi);
	line("version", text);
	snprintf(text, sizeof text, "%zu", options);
	line("options", text);
}

static void
print_seen(void *context, const struct soma__plugin_seen *seen)
{
	size_t *count = context;
	char *path = report_clean(seen->path);

	printf("  %s\n", seen->name);
	line("file", path);
	if (seen->hidden)
		line("hidden", "a folder before this one has one of this name, which is taken");
	if (seen->plugin != NULL)
		print_module(&seen->plugin->module);
	if (wraps(seen))
		line("goes around", "another backend, as in guard:host or guard:auto");
	if (seen->info != NULL)
		print_info(seen->info, seen->devices);
	if (seen->reason != NULL)
		line("not usable", seen->reason);
	(*count)++;
	free(path);
}

void
backends_print(const char *search)
{
	size_t count = 0;

	printf("\nBackends\n");
	if (soma__plugin_list(search, print_seen, &count) != SOMA_STATUS_OK)
		printf("  not all of them: %s\n", soma_error_last()->text);
	else if (count == 0)
		printf("  none found; --backend-path says where to look\n");
}

/* ---- names -------------------------------------------------------------------------- */

struct names {
	const char **at;
	size_t count, room;
};

static void
add_name(struct names *names, const char *name)
{
	names->at = xgrow(names->at, &names->room, names->count, sizeof *names->at);
	names->at[names->count++] = name;
}

static void
add_plugin(void *context, const struct soma__plugin *plugin)
{
	add_name(context, plugin->module.name);
}

/* Whether all parts of guard:NAME are backends. */
static bool
is_known(const struct names *names, const char *backend)
{
	for (;;) {
		size_t length = strcspn(backend, ":");
		bool known = false;

		for (size_t i = 0; i < names->count; i++)
			known |=
				strlen(names->at[i]) == length && strncmp(names->at[i], backend, length) == 0;
		if (!known || backend[length] == '\0')
			return known;
		backend += length + 1;
	}
}

void
backends_suggest(const char *search, const char *backend)
{
	struct names names = { .count = 0 };

	add_name(&names, "auto");
	soma__plugin_each(search, add_plugin, &names);
	if (!is_known(&names, backend)) {
		for (size_t i = 0; i < names.count; i++)
			fprintf(stderr, "%s %s",
				i == 0                ? "There are"
				: i + 1 < names.count ? ","
						      : " and",
				names.at[i]);
		fprintf(stderr, "; soma info says where it looks, and what each is.\n");
	}
	free(names.at);
}

/* ---- JSON -------------------------------------------------------------------------- */

static json_t *
clean_string(const char *text)
{
	char *clean = text != NULL ? report_clean(text) : NULL;
	json_t *string = clean != NULL ? json_string(clean) : json_null();

	free(clean);
	return string;
}

static json_t *
info_object(const struct soma_backend_info *info)
{
	json_t *names = json_array(), *object = json_object();
	char device[sizeof info->device_name + 1];

	snprintf(device, sizeof device, "%.*s", (int)sizeof info->device_name, info->device_name);
	for (size_t i = 0; i < CAPABILITIES; i++)
		if (info->capabilities & capabilities[i].bit)
			json_array_append_new(names, json_string(capabilities[i].text));
	json_object_set_new(object, "name", clean_string(device));
	json_object_set_new(object, "total", report_number(info->total));
	json_object_set_new(object, "free", report_number(info->free));
	json_object_set_new(object, "granularity", report_number(info->granularity));
	json_object_set_new(object, "alignment", report_number(info->alignment));
	json_object_set_new(object, "driver_version", json_integer(info->driver_version));
	json_object_set_new(object, "capabilities", names);
	return object;
}

static void
append_seen(void *context, const struct soma__plugin_seen *seen)
{
	const struct soma_backend_module *module = seen->plugin != NULL ? &seen->plugin->module : NULL;
	json_t *object = json_object();

	json_object_set_new(object, "name", clean_string(seen->name));
	json_object_set_new(object, "path", clean_string(seen->path));
	json_object_set_new(object, "hidden", json_boolean(seen->hidden));
	json_object_set_new(object, "wraps", json_boolean(wraps(seen)));
	json_object_set_new(object, "description", clean_string(module != NULL ? module->description : NULL));
	json_object_set_new(object, "version", clean_string(module != NULL ? module->version : NULL));
	json_object_set_new(object, "abi", module != NULL ? report_number(module->abi) : json_null());
	json_object_set_new(object, "options",
			    module != NULL ? report_number(count_options(module)) : json_null());
	json_object_set_new(object, "devices", json_integer(seen->devices));
	json_object_set_new(object, "device", seen->info != NULL ? info_object(seen->info) : json_null());
	json_object_set_new(object, "reason", clean_string(seen->reason));
	json_array_append_new(context, object);
}

json_t *
backends_array(const char *search)
{
	json_t *array = json_array();

	if (soma__plugin_list(search, append_seen, array) == SOMA_STATUS_OK)
		return array;
	json_decref(array);
	return NULL;
}
