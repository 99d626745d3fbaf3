/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the guard's options.  The library checks keys against the same table; they
 * are checked here again because a module may be opened by others.  No state.
 */
#include "backends/guard/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "backends/guard/fail.h"

enum kind { CHOICE, BOOL, SIZE, COUNT, RATIO, PATH };

struct rule {
	enum kind kind;
	size_t offset;
	uint64_t max;
	const char *const *choices;
};

static const char *const modes[] = { "off", "canary", "full", NULL };
static const char *const races[] = { "auto", "strict", "confirm", "off", NULL };
static const char *const on_errors[] = { "report", "abort", "callback", NULL };

#define REDZONE_LIMIT ((uint64_t)8 << 20)
#define BACKTRACE_LIMIT 64u

#define FIELD(f) offsetof(struct guard_options, f)

/* X(key, default, kind, field, max, choices, doc) */
#define OPTIONS(X)                                                                                           \
	X("mode", "canary", CHOICE, mode, 0, modes,                                                          \
	  "off, canary, or full (each block in its own mapping too)")                                        \
	X("redzone_left", "256", SIZE, redzone_left, REDZONE_LIMIT, NULL,                                    \
	  "canary bytes before a block, at least")                                                           \
	X("redzone_right_max", "4K", SIZE, redzone_right_max, REDZONE_LIMIT, NULL,                           \
	  "canary bytes behind a block: a 16th of it, from 256 to this")                                     \
	X("poison_alloc", "on", BOOL, poison_alloc, 0, NULL, "fill new blocks with NaNs")                    \
	X("poison_free", "on", BOOL, poison_free, 0, NULL, "fill freed blocks, to find late writes")         \
	X("quarantine_bytes", "auto", SIZE, quarantine_bytes, UINT64_MAX - 1, NULL,                          \
	  "freed memory kept back; auto: 64M for host memory, else a 16th of the device, at most 256M")      \
	X("quarantine_blocks", "4096", COUNT, quarantine_blocks, UINT32_MAX, NULL, "freed blocks kept back") \
	X("quarantine_max_block", "auto", SIZE, quarantine_max_block, UINT64_MAX - 1, NULL,                  \
	  "larger blocks are not kept back; auto: a quarter of quarantine_bytes")                            \
	X("tombstones", "65536", COUNT, tombstones, (uint64_t)1 << 24, NULL,                                 \
	  "blocks remembered after that, to name a late double free")                                        \
	X("vmm_sample", "auto", RATIO, vmm_sample, UINT32_MAX, NULL,                                         \
	  "mode=full: blocks below 2M in an own mapping; auto: all of host memory, else 1/1000")             \
	X("vmm_bytes", "auto", SIZE, vmm_bytes, UINT64_MAX - 1, NULL,                                        \
	  "mode=full: memory in own mappings at most, 0: unlimited; auto: 0 for host memory, else 256M")     \
	X("vmm_seed", "1", COUNT, vmm_seed, UINT64_MAX - 1, NULL, "mode=full: of the choice of blocks")      \
	X("race", "auto", CHOICE, race, 0, races,                                                            \
	  "strict, off, or confirm (a warning where the earlier work had ended); auto: strict for host "     \
	  "memory")                                                                                          \
	X("backtrace", "16", COUNT, backtrace, BACKTRACE_LIMIT, NULL, "frames of a stack; 0: none")          \
	X("on_error", "abort", CHOICE, on_error, 0, on_errors,                                               \
	  "report, abort (after the report; leaks and warnings do not), or callback")                        \
	X("report_limit", "100", COUNT, report_limit, UINT32_MAX, NULL, "later reports are only counted")    \
	X("output", "", PATH, output, 0, NULL, "file to append reports to; empty: standard error")           \
	X("json", "", PATH, json, 0, NULL, "file to append reports to as JSON, one a line; empty: none")     \
	X("map", "", PATH, map, 0, NULL,                                                                     \
	  "mode=full: file to append the addresses of blocks in own mappings to; empty: none")

const struct soma_backend_option_info guard_option_table[] = {
#define X(key, value, kind, field, max, choices, doc) { key, value, doc },
	OPTIONS(X)
#undef X
		{ NULL, NULL, NULL },
};

static const struct rule rules[] = {
#define X(key, value, kind, field, max, choices, doc) { kind, FIELD(field), max, choices },
	OPTIONS(X)
#undef X
};

static enum soma_status
refuse(const struct soma_backend_host *host, const char *key, const char *value, const char *expected)
{
	return guard_fail(host, SOMA_STATUS_INVALID_VALUE, "guard.%.64s: \"%.64s\" is not %s", key, value,
			  expected);
}

static bool
read_decimal(const char *text, uint64_t max, uint64_t *value)
{
	uint64_t sum = 0;

	if (*text == '\0')
		return false;
	for (; *text != '\0'; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(sum, 10, &sum) ||
		    __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum) || sum > max)
			return false;
	*value = sum;
	return true;
}

static enum soma_status
read_choice(const struct soma_backend_host *host, const char *key, const struct rule *rule, const char *value,
	    unsigned *field)
{
	char expected[128] = "one of";
	size_t used = strlen(expected);

	for (unsigned i = 0; rule->choices[i] != NULL; i++) {
		if (strcmp(rule->choices[i], value) == 0) {
			*field = i;
			return SOMA_STATUS_OK;
		}
		used += (size_t)snprintf(expected + used, sizeof expected - used, "%s %s", i == 0 ? "" : ",",
					 rule->choices[i]);
	}
	return refuse(host, key, value, expected);
}

static enum soma_status
read_bool(const struct soma_backend_host *host, const char *key, const char *value, bool *field)
{
	static const char *const words[] = { "0", "1", "no", "yes", "off", "on", "false", "true" };

	for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (strcmp(words[i], value) == 0) {
			*field = i % 2 != 0;
			return SOMA_STATUS_OK;
		}
	}
	return refuse(host, key, value, "yes or no");
}

static enum soma_status
read_size(const struct soma_backend_host *host, const char *key, const struct rule *rule, const char *value,
	  uint64_t *field)
{
	uint64_t bytes;
	char expected[64];

	if (strcmp(value, "auto") == 0 && rule->max == UINT64_MAX - 1) {
		*field = GUARD_AUTO;
		return SOMA_STATUS_OK;
	}
	enum soma_status status = host->parse_size(host->context, value, &bytes);
	if (status != SOMA_STATUS_OK)
		return refuse(host, key, value, "a size such as 64M or 1.5GiB");
	snprintf(expected, sizeof expected, "at most %llu bytes", (unsigned long long)rule->max);
	if (bytes > rule->max)
		return refuse(host, key, value, expected);
	*field = bytes;
	return SOMA_STATUS_OK;
}

static enum soma_status
read_count(const struct soma_backend_host *host, const char *key, const struct rule *rule, const char *value,
	   uint64_t *field)
{
	char expected[64];

	if (read_decimal(value, rule->max, field))
		return SOMA_STATUS_OK;
	snprintf(expected, sizeof expected, "a whole number from 0 to %llu", (unsigned long long)rule->max);
	return refuse(host, key, value, expected);
}

static enum soma_status
read_ratio(const struct soma_backend_host *host, const char *key, const struct rule *rule, const char *value,
	   uint64_t *field)
{
	if (strcmp(value, "auto") == 0) {
		*field = GUARD_AUTO;
		return SOMA_STATUS_OK;
	}
	if (strcmp(value, "0") == 0 || strcmp(value, "1") == 0) {
		*field = value[0] == '1';
		return SOMA_STATUS_OK;
	}
	if (strncmp(value, "1/", 2) == 0 && read_decimal(value + 2, rule->max, field) && *field != 0)
		return SOMA_STATUS_OK;
	return refuse(host, key, value, "auto, 0, 1 or 1/N");
}

static enum soma_status
read_path(const struct soma_backend_host *host, const char *key, const char *value, char *field)
{
	size_t length = strlen(value);

	if (length >= GUARD_PATH_MAX)
		return refuse(host, key, value, "a path of less than 512 bytes");
	memcpy(field, value, length + 1);
	return SOMA_STATUS_OK;
}

static enum soma_status
read_value(const struct soma_backend_host *host, struct guard_options *options, unsigned at,
	   const char *value)
{
	const struct rule *rule = &rules[at];
	const char *key = guard_option_table[at].key;
	void *field = (char *)options + rule->offset;

	switch (rule->kind) {
	case CHOICE:
		return read_choice(host, key, rule, value, field);
	case BOOL:
		return read_bool(host, key, value, field);
	case SIZE:
		return read_size(host, key, rule, value, field);
	case COUNT:
		return read_count(host, key, rule, value, field);
	case RATIO:
		return read_ratio(host, key, rule, value, field);
	case PATH:
		break;
	}
	return read_path(host, key, value, field);
}

/* Edit distance; keys are short, and what is longer than a row is far anyway. */
static unsigned
distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t n = strnlen(b, 63);

	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; *a != '\0' && i < 64; i++, a++) {
		unsigned corner = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = corner + (*a != b[j - 1]);
			corner = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

static enum soma_status
refuse_key(const struct soma_backend_host *host, const char *key)
{
	const char *nearest = guard_option_table[0].key;

	for (unsigned i = 1; guard_option_table[i].key != NULL; i++)
		if (distance(key, guard_option_table[i].key) < distance(key, nearest))
			nearest = guard_option_table[i].key;
	return guard_fail(host, SOMA_STATUS_INVALID_VALUE,
			  "there is no option \"guard.%.64s\"; the nearest is \"guard.%s\"", key, nearest);
}

enum soma_status
guard_options_read(struct guard_options *options, const struct soma_backend_open *how)
{
	enum soma_status status;

	*options = (struct guard_options){ 0 };
	for (unsigned i = 0; guard_option_table[i].key != NULL; i++) {
		status = read_value(how->host, options, i, guard_option_table[i].default_text);
		if (status != SOMA_STATUS_OK)
			return status;
	}
	for (size_t i = 0; i < how->option_count; i++) {
		unsigned at = 0;
		while (guard_option_table[at].key != NULL &&
		       strcmp(guard_option_table[at].key, how->options[i].key) != 0)
			at++;
		if (guard_option_table[at].key == NULL)
			return refuse_key(how->host, how->options[i].key);
		status = read_value(how->host, options, at, how->options[i].value);
		if (status != SOMA_STATUS_OK)
			return status;
	}
	return SOMA_STATUS_OK;
}

void
guard_options_resolve(struct guard_options *options, bool host_memory, uint64_t total)
{
	uint64_t most = (uint64_t)256 << 20;

	if (options->quarantine_bytes == GUARD_AUTO)
		options->quarantine_bytes = host_memory         ? (uint64_t)64 << 20
					    : total / 16 < most ? total / 16
								: most;
	if (options->quarantine_max_block == GUARD_AUTO)
		options->quarantine_max_block = options->quarantine_bytes / 4;
	if (options->vmm_sample == GUARD_AUTO)
		options->vmm_sample = host_memory ? 1 : 1000;
	if (options->vmm_bytes == GUARD_AUTO)
		options->vmm_bytes = host_memory ? 0 : most;
	if (options->race == GUARD_RACE_AUTO)
		options->race = host_memory ? GUARD_RACE_STRICT : GUARD_RACE_CONFIRM;
}
