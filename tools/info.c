/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma info`: the version, the build, huge pages, the policies, the backends.
 *
 * What huge pages do is not read from settings alone: a model is made, filled until
 * its records would be put on huge pages, and asked what it really got.
 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <soma/soma.h>

#include "tools/backends.h"
#include "tools/command.h"
#include "tools/conf.h"
#include "tools/machine.h"
#include "tools/units.h"

#define PROBE_BLOCKS 200000

struct info_values {
	bool json;
	const char *backend_path;
	bool options;
};

const char *const info_paragraphs[] = {
	"Shows the version, the choices made when soma was built, the machine's settings of huge pages, what "
	"kind of pages the records of a model of many blocks really are on, the policies that there are, and the "
	"backends that are found: what each can do here, or why it cannot be used.",
	NULL,
};

const struct option_row info_options[] = {
	{ "json", 'j', OPTION_FLAG, offsetof(struct info_values, json), NULL, NULL,
	  "Print one JSON object; sizes in it are bytes." },
	{ "backend-path", 0, OPTION_TEXT, offsetof(struct info_values, backend_path), "FOLDERS", NULL,
	  "Folders to look for backends in first, with colons between them." },
	{ "options", 'o', OPTION_FLAG, offsetof(struct info_values, options), NULL, NULL,
	  "Print the keys of a configuration string instead, those of all backends that are found included; "
	  "see soma.conf(5)." },
	{ .name = NULL },
};

struct info {
	struct machine_huge_pages machine;
	struct soma_memory_info records;
	uint64_t blocks;
};

static const char *
jemalloc_text(void)
{
#ifdef SOMA_JEMALLOC_SYSTEM
	return "the system's";
#else
	return "private";
#endif
}

static const char *
compiler_text(void)
{
#ifdef __clang__
	return "clang " __clang_version__;
#else
	return "gcc " __VERSION__;
#endif
}

static const char *
sanitizers_text(void)
{
#ifdef SOMA_SANITIZERS
	return "yes";
#else
	return "none";
#endif
}

static enum soma_status
fill(struct soma_model *model, struct info *info)
{
	struct soma_model_alloc alloc;
	enum soma_status status = SOMA_STATUS_OK;

	while (status == SOMA_STATUS_OK && info->blocks < PROBE_BLOCKS) {
		status = soma_model_alloc(model, 512 + 512 * (info->blocks % 7), 0, &alloc);
		info->blocks += status == SOMA_STATUS_OK;
	}
	return status == SOMA_STATUS_OK ? soma_model_memory_info(model, &info->records, sizeof info->records)
					: status;
}

static enum soma_status
gather(struct info *info)
{
	struct soma_model *model;
	enum soma_status status;

	*info = (struct info){ 0 };
	machine_read_huge_pages(&info->machine);
	status = soma_model_create(NULL, &model);
	if (status != SOMA_STATUS_OK)
		return status;
	status = fill(model, info);
	soma_model_destroy(model);
	return status;
}

/* ---- policies ------------------------------------------------------------ */

/* X(flag, text) */
#define REUSE_MAP(X)                             \
	X(SOMA_REUSE_SAME_STREAM, "same stream") \
	X(SOMA_REUSE_FOLLOW_EVENTS, "events")    \
	X(SOMA_REUSE_OPPORTUNISTIC, "executed")  \
	X(SOMA_REUSE_INTERNAL, "inserted wait")

static const struct {
	unsigned flag;
	const char *text;
} reuses[] = {
#define X(bit, name) { bit, name },
	REUSE_MAP(X)
#undef X
};

#define REUSE_COUNT (sizeof reuses / sizeof reuses[0])

static const char *
fit_text(const struct soma_policy *policy)
{
	return policy->fit == SOMA_FIT_BEST ? "best" : "good";
}

static const char *
segments_text(const struct soma_policy *policy)
{
	if (policy->segments == SOMA_SEGMENTS_MAPPED)
		return "mapped pages";
	return policy->segments == SOMA_SEGMENTS_RANGE ? "one range" : "steps";
}

static void
print_reuses(const struct soma_policy *policy)
{
	const char *separator = "";

	for (size_t i = 0; i < REUSE_COUNT; i++) {
		if (policy->reuse & reuses[i].flag) {
			printf("%s%s", separator, reuses[i].text);
			separator = ", ";
		}
	}
	printf("%s\n", policy->per_stream ? " (segments belong to a stream)" : "");
}

static void
print_policies(void)
{
	const struct soma_policy *policy;
	char size[UNITS_MAX];

	printf("\nPolicies\n  %-10s%-11s%-6s%-14s%s\n", "name", "alignment", "fit", "segments",
	       "a freed block is used again by");
	for (size_t i = 0; (policy = soma_policy_at(i)) != NULL; i++) {
		printf("  %-10s%-11s%-6s%-14s", policy->name, units_bytes(size, policy->alignment),
		       fit_text(policy), segments_text(policy));
		print_reuses(policy);
	}
}

static json_t *
policy_object(const struct soma_policy *policy)
{
	json_t *names = json_array();

	for (size_t i = 0; i < REUSE_COUNT; i++)
		if (policy->reuse & reuses[i].flag)
			json_array_append_new(names, json_string(reuses[i].text));
	return json_pack("{s:s, s:I, s:s, s:s, s:b, s:o}", "name", policy->name, "alignment",
			 (json_int_t)policy->alignment, "fit", fit_text(policy), "segments",
			 segments_text(policy), "per_stream", policy->per_stream, "reuse", names);
}

static json_t *
policies_array(void)
{
	json_t *array = json_array();
	const struct soma_policy *policy;

	for (size_t i = 0; (policy = soma_policy_at(i)) != NULL; i++)
		json_array_append_new(array, policy_object(policy));
	return array;
}

/* ---- output -------------------------------------------------------------- */

static void
line(const char *label, const char *value)
{
	printf("  %-18s%s\n", label, value);
}

static void
print_machine(const struct machine_huge_pages *machine)
{
	char size[UNITS_MAX], text[128];

	printf("\nHuge pages of this machine\n");
	line("transparent", machine->transparent);
	line("defrag", machine->defrag);
	snprintf(text, sizeof text, "%" PRIu64 " reserved, %" PRIu64 " free, %s each",
		 machine->explicit_total, machine->explicit_free, units_bytes(size, machine->explicit_size));
	line("explicit", text);
}

static void
print_records(const struct info *info)
{
	char text[UNITS_MAX];

	printf("\nRecords of a model with %s\n", units_plural(text, info->blocks, "live block"));
	line("pages", info->records.page_kind);
	line("mapped", units_bytes(text, info->records.mapped));
	line("resident", units_bytes(text, info->records.resident));
	line("really huge", units_bytes(text, info->records.huge));
}

static void
print_text(const struct info *info, const char *backend_path)
{
	char text[64];

	printf("soma %s\n", soma_version());
	line("compiler", compiler_text());
	line("sanitizers", sanitizers_text());
	snprintf(text, sizeof text, "%s, %s", SOMA_JEMALLOC_VERSION, jemalloc_text());
	line("jemalloc", text);
	print_machine(&info->machine);
	print_records(info);
	print_policies();
	backends_print(backend_path);
}

static bool
print_json(const struct info *info, const char *backend_path)
{
	const struct machine_huge_pages *machine = &info->machine;
	const struct soma_memory_info *records = &info->records;
	json_t *build = json_pack("{s:s, s:s, s:s, s:s}", "compiler", compiler_text(), "sanitizers",
				  sanitizers_text(), "jemalloc", jemalloc_text(), "jemalloc_version",
				  SOMA_JEMALLOC_VERSION);
	json_t *pages = json_pack("{s:s, s:s, s:I, s:I, s:I}", "transparent", machine->transparent, "defrag",
				  machine->defrag, "explicit_total", (json_int_t)machine->explicit_total,
				  "explicit_free", (json_int_t)machine->explicit_free, "explicit_size",
				  (json_int_t)machine->explicit_size);
	json_t *model =
		json_pack("{s:I, s:s, s:I, s:I, s:I}", "live_blocks", (json_int_t)info->blocks, "page_kind",
			  records->page_kind, "mapped", (json_int_t)records->mapped, "resident",
			  (json_int_t)records->resident, "huge", (json_int_t)records->huge);
	json_t *backends = backends_array(backend_path);
	json_t *object = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "version", soma_version(), "build", build,
				   "huge_pages", pages, "model", model, "policies", policies_array(),
				   "backends", backends != NULL ? backends : json_null());
	bool written = json_dumpf(object, stdout, JSON_INDENT(2)) == 0;

	putchar('\n');
	json_decref(object);
	return written;
}

int
command_info(const struct command *command, int argc, char **argv)
{
	struct info_values values = { 0 };
	struct info info;
	int first, end = options_parse(command, argc, argv, &values, &first);

	if (end >= 0)
		return end;
	if (first < argc)
		return usage_error(command, "expected no argument, got '%s'", argv[first]);
	if (values.options)
		return conf_print_table(values.backend_path, values.json) ? EXIT_FINE : EXIT_INPUT;
	if (gather(&info) != SOMA_STATUS_OK) {
		fprintf(stderr, "soma info: %s\n", soma_error_last()->text);
		return EXIT_INPUT;
	}
	if (!values.json)
		print_text(&info, values.backend_path);
	else if (!print_json(&info, values.backend_path))
		return EXIT_INPUT;
	return EXIT_FINE;
}
