/* SPDX-License-Identifier: Apache-2.0 */
/* The folders that modules are looked for in, and finding one by name.  No state. */
#include "config.h"

#include "lib/plugin/plugin.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

/* Every part of a list with colons; false when visit said stop. */
static bool
visit_list(const char *list, bool (*visit)(void *context, const char *folder), void *context)
{
	char folder[PATH_MAX];

	for (const char *at = list; at != NULL && *at != '\0';) {
		size_t length = strcspn(at, ":");
		if (length > 0 && length < sizeof folder) {
			memcpy(folder, at, length);
			folder[length] = '\0';
			if (!visit(context, folder))
				return false;
		}
		at += length;
		at += *at == ':';
	}
	return true;
}

void
soma__plugin_folders(const char *search, bool (*visit)(void *context, const char *folder), void *context)
{
	if (visit_list(search, visit, context) &&
	    visit_list(secure_getenv("SOMA_BACKEND_PATH"), visit, context))
		visit(context, SOMA_BACKEND_DIR);
}

struct finding {
	const char *name;
	const struct soma__plugin *plugin;
	enum soma_status status;
	size_t length; /* of folders */
	char folders[200];
};

static bool
look_in(void *context, const char *folder)
{
	struct finding *finding = context;
	char path[PATH_MAX];
	size_t room = sizeof finding->folders - finding->length;

	int length = snprintf(finding->folders + finding->length, room, "%s%s",
			      finding->length > 0 ? ", " : "", folder);
	finding->length += (size_t)length < room ? (size_t)length : room - 1;
	if (snprintf(path, sizeof path, "%s/%s.so", folder, finding->name) >= (int)sizeof path)
		return true;
	finding->status = soma__plugin_load(path, &finding->plugin);
	return finding->status == SOMA_STATUS_NOT_FOUND;
}

static enum soma_status
not_found(const char *search, const char *name, const char *folders)
{
	char near[64];
	bool is_near = soma__plugin_near(search, name, near);

	return soma__error_text(SOMA_STATUS_NOT_FOUND, "there is no backend \"%s\": no %s.so in %s%s%s%s",
				name, name, folders, is_near ? "; did you mean '" : "", is_near ? near : "",
				is_near ? "'?" : "");
}

enum soma_status
soma__plugin_find(const char *search, const char *name, const struct soma__plugin **plugin)
{
	struct finding finding = { .name = name, .status = SOMA_STATUS_NOT_FOUND };

	if (!soma__plugin_name_ok(name, strlen(name)))
		return soma__error_text(
			SOMA_STATUS_INVALID_VALUE,
			"\"%.63s\" is no backend's name: letters, digits, - and _ were expected", name);
	soma__plugin_folders(search, look_in, &finding);
	if (finding.status == SOMA_STATUS_NOT_FOUND)
		return not_found(search, name, finding.folders);
	if (finding.status == SOMA_STATUS_OK)
		*plugin = finding.plugin;
	return finding.status;
}
