/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration string; see the header. */
#include "config.h"

#include "tools/conf.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <soma/soma.h>

#include "tools/command.h"

static bool
walk(const char *search, bool (*visit)(void *context, const struct soma_option_info *option), void *context)
{
	if (soma_runtime_walk_options(search, visit, context) == SOMA_STATUS_OK)
		return true;
	fprintf(stderr, "soma: %s\n", soma_error_last()->text);
	return false;
}

/* ---- for people and scripts ------------------------------------------------------ */

static const char *
default_text(const struct soma_option_info *option)
{
	return option->default_text[0] != '\0' ? option->default_text : "-";
}

struct widths {
	size_t name, value;
};

static bool
measure(void *context, const struct soma_option_info *option)
{
	struct widths *widths = context;

	if (strlen(option->name) > widths->name)
		widths->name = strlen(option->name);
	if (strlen(default_text(option)) > widths->value)
		widths->value = strlen(default_text(option));
	return true;
}

static bool
print_row(void *context, const struct soma_option_info *option)
{
	const struct widths *widths = context;

	size_t column = widths->name + widths->value + 4;

	printf("%-*s  %-*s  ", (int)widths->name, option->name, (int)widths->value, default_text(option));
	help_wrapped(option->doc, column, column);
	return true;
}

static bool
add_object(void *context, const struct soma_option_info *option)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s?}", "name", option->name, "default",
				   option->default_text, "doc", option->doc, "module", option->module);

	return json_array_append_new(context, object) == 0;
}

static bool
print_json(const char *search)
{
	json_t *array = json_array();
	bool done = walk(search, add_object, array) && json_dumpf(array, stdout, JSON_INDENT(2)) == 0;

	putchar('\n');
	json_decref(array);
	return done;
}

bool
conf_print_table(const char *search, bool json)
{
	struct widths widths = { .name = strlen("key"), .value = strlen("default") };

	if (json)
		return print_json(search);
	if (!walk(search, measure, &widths))
		return false;
	printf("%-*s  %-*s  %s\n", (int)widths.name, "key", (int)widths.value, "default", "what it says");
	return walk(search, print_row, &widths);
}

/* ---- soma.conf(5) ----------------------------------------------------------------- */

/* Modules of others may be found, too, and are not in the man page. */
static const char *const modules[] = { "async", "guard", "host", NULL };

struct section {
	const char *module; /* NULL: keys of no module */
	unsigned count;
};

static bool
print_item(void *context, const struct soma_option_info *option)
{
	struct section *section = context;
	char text[512];

	if ((section->module == NULL) != (option->module == NULL) ||
	    (section->module != NULL && strcmp(section->module, option->module) != 0))
		return true;
	if (section->count++ == 0)
		printf(".Bl -tag -width Ds\n");
	printf(".It Ic %s\n", option->name);
	snprintf(text, sizeof text, "%c%s.", option->doc[0], option->doc + 1);
	help_mdoc_text(text);
	if (option->default_text[0] == '\0')
		printf("The default is empty.\n");
	else
		printf("The default is\n.Cm %s .\n", option->default_text);
	return true;
}

static bool
print_section(const char *module)
{
	struct section section = { .module = module };

	if (!walk(NULL, print_item, &section))
		return false;
	if (section.count > 0)
		printf(".El\n");
	else
		fprintf(stderr, "soma: the backend %s is not found, or has no options\n", module);
	return section.count > 0;
}

static const char head[] =
	".Sh NAME\n.Nm soma.conf\n.Nd configuration strings of soma's runtimes\n"
	".Sh DESCRIPTION\n"
	"A runtime\n.Pq Xr soma_runtime 3\n"
	"is opened by one string of keys and values with commas between them:\n"
	".Pp\n.Dl backend=guard:async,budget=8G,trace=run.csv,guard.quarantine_bytes=64M\n.Pp\n"
	"It is an argument of\n.Fn soma_runtime_open ,\n"
	"or the value of the environment's variable\n.Ev SOMA_CONF .\n"
	"There are no blanks in it, a value cannot have a comma, and a key is given once.\n"
	"A key that there is not, and a value that is none, are errors which say at which character they "
	"stand.\n"
	".Pp\n"
	"Sizes are in bytes, or with a unit, which is a power of 1024:\n.Cm 4096 , 64M , 1.5GiB .\n"
	"Yes and no may be written\n.Cm yes , on , true , 1\nand\n.Cm no , off , false , 0 .\n"
	".Pp\n"
	"A backend's own keys have its name and a dot before them.\n"
	"They may be given where the backend is part of\n.Ic backend ,\n"
	"or may be chosen by\n.Cm auto .\n";

static const char tail[] =
	".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
	".It Ev SOMA_CONF\n"
	"The configuration of runtimes that are opened without one.\n"
	".It Ev SOMA_BACKEND_PATH\n"
	"Folders of modules, with colons between them.\n"
	"They are looked in after\n.Ic backend_path ,\n"
	"and before the one of the installation.\n"
	".El\n.Pp\n"
	"Neither is looked at in a process that is set-user-id or set-group-id.\n"
	".Sh EXAMPLES\n"
	"Find errors, on any machine, and go on after each:\n"
	".Pp\n.Dl SOMA_CONF=backend=guard:auto,guard.on_error=report ./program\n.Pp\n"
	"A budget, and a trace of each device and process, to be replayed by\n.Xr soma 1 :\n"
	".Pp\n.Dl SOMA_CONF=budget=8G,trace=run-%d-%p.csv ./program\n.Pp\n"
	".Ql soma info --options\nprints all keys, those of other modules as well.\n"
	".Sh SEE ALSO\n.Xr soma 1 ,\n.Xr soma_runtime 3 ,\n.Xr soma-trace 5\n";

bool
conf_print_mdoc(void)
{
	bool whole;

	printf(".\\\" SPDX-License-Identifier: Apache-2.0\n"
	       ".\\\" Printed by the command from the library's table: make update-man\n"
	       ".Dd " SOMA_DATE "\n.Dt SOMA.CONF 5\n.Os\n");
	fputs(head, stdout);
	printf(".Sh KEYS\n");
	whole = print_section(NULL);
	printf(".Sh KEYS OF BACKENDS\n");
	for (unsigned i = 0; modules[i] != NULL; i++) {
		printf(".Ss %s\n", modules[i]);
		whole = print_section(modules[i]) && whole;
	}
	fputs(tail, stdout);
	return whole;
}
