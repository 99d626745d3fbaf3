/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading settings, and rounding requests by them.
 */
#include "tools/engine/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/nearest.h"
#include "lib/base/size.h"

#define MIB ((uint64_t)1 << 20)
#define BLOCK_LEAST 512

/* Above this many MiB sizes mean nothing to a model (256 TiB). */
#define MEGABYTES_MAX ((uint64_t)1 << 28)

/* The allocator's own default, and the least that it takes for both settings in MB. */
#define LARGE_SEGMENT_MB 20

/* The slack that a model takes. */
#define SLACK_MB_MAX 2048

struct reading {
	struct settings *settings;
	const char *key;
	const char *value;
	char *buffer; /* for the message */
	size_t size;
};

static const char *
wrong(struct reading *reading, const char *expected)
{
	snprintf(reading->buffer, reading->size, "%s: expected %s, got '%s'", reading->key, expected,
		 reading->value);
	return reading->buffer;
}

/* All of the text, a number without a sign. */
static bool
parse_number(const char *text, const char *end, uint64_t *number)
{
	*number = 0;
	if (text == end)
		return false;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9' || *number > MEGABYTES_MAX)
			return false;
		*number = *number * 10 + (uint64_t)(*text - '0');
	}
	return true;
}

static bool
parse_value(const struct reading *reading, uint64_t *number)
{
	return parse_number(reading->value, reading->value + strlen(reading->value), number);
}

static const char *
set_max_split(struct reading *reading)
{
	uint64_t megabytes;

	if (!parse_value(reading, &megabytes) || megabytes <= LARGE_SEGMENT_MB || megabytes > MEGABYTES_MAX)
		return wrong(reading, "a number of MB above 20");
	reading->settings->max_split = megabytes * MIB;
	return NULL;
}

static const char *
set_slack(struct reading *reading)
{
	uint64_t megabytes;

	if (!parse_value(reading, &megabytes) || megabytes <= LARGE_SEGMENT_MB || megabytes > SLACK_MB_MAX)
		return wrong(reading, "a number of MB above 20, up to 2048");
	reading->settings->non_split_slack = megabytes * MIB;
	return NULL;
}

static const char *
set_threshold(struct reading *reading)
{
	char *end;
	double value = strtod(reading->value, &end);

	if (reading->value[0] < '.' || reading->value[0] > '9' || *end != '\0' || !(value > 0 && value < 1))
		return wrong(reading, "a fraction between 0 and 1");
	reading->settings->collect_threshold = value;
	return NULL;
}

static bool
is_power_of_two(uint64_t value)
{
	return value != 0 && (value & (value - 1)) == 0;
}

static void
fill(struct settings *settings, unsigned from, unsigned to, uint64_t divisions)
{
	for (unsigned i = from; i < to; i++)
		settings->divisions[i] = (unsigned)divisions;
}

/* "256:1" or ">:4".  What is below the first boundary is as that; what is between two is
 * not rounded; > is all above the last. */
static const char *
set_interval(struct reading *reading, const char *text, const char *end, int *last)
{
	static const char expected[] =
		"a list such as [256:1,512:2,>:4] of MB, powers of two, and divisions, powers of two or 0";
	const char *colon = memchr(text, ':', (size_t)(end - text));
	uint64_t boundary, divisions;
	unsigned index;

	if (colon == NULL || !parse_number(colon + 1, end, &divisions) || divisions > 1U << 20 ||
	    (divisions != 0 && !is_power_of_two(divisions)))
		return wrong(reading, expected);
	if (colon - text == 1 && *text == '>') {
		fill(reading->settings, (unsigned)(*last + 1), SETTINGS_INTERVALS, divisions);
		return NULL;
	}
	if (!parse_number(text, colon, &boundary) || !is_power_of_two(boundary))
		return wrong(reading, expected);
	index = 63U - (unsigned)__builtin_clzll(boundary);
	if (index > SETTINGS_INTERVALS - 1)
		index = SETTINGS_INTERVALS - 1;
	if (*last < 0)
		fill(reading->settings, 0, index, divisions);
	reading->settings->divisions[index] = (unsigned)divisions;
	*last = (int)index;
	return NULL;
}

static const char *
set_list(struct reading *reading)
{
	const char *text = reading->value + 1, *end = strchr(text, ']'), *problem = NULL;
	int last = -1;

	if (end == NULL || end[1] != '\0' || end == text)
		return wrong(reading, "a list in brackets");
	while (problem == NULL && text < end) {
		const char *comma = memchr(text, ',', (size_t)(end - text));

		problem = set_interval(reading, text, comma != NULL ? comma : end, &last);
		text = comma != NULL ? comma + 1 : end;
	}
	return problem;
}

static const char *
set_divisions(struct reading *reading)
{
	struct settings *settings = reading->settings;
	const char *problem = NULL;
	uint64_t divisions;

	if (reading->value[0] == '[')
		problem = set_list(reading);
	else if (parse_value(reading, &divisions) && is_power_of_two(divisions) && divisions <= 1U << 20)
		fill(settings, 0, SETTINGS_INTERVALS, divisions);
	else
		return wrong(reading, "a power of two, or a list such as [256:1,512:2,>:4]");
	for (unsigned i = 0; i < SETTINGS_INTERVALS; i++)
		settings->rounds |= settings->divisions[i] > 1;
	return problem;
}

static const char *
set_expandable(struct reading *reading)
{
	bool yes = strcmp(reading->value, "True") == 0 || strcmp(reading->value, "true") == 0;

	if (!yes && strcmp(reading->value, "False") != 0 && strcmp(reading->value, "false") != 0)
		return wrong(reading, "True or False");
	reading->settings->expandable = yes;
	reading->settings->not_expandable = !yes;
	return NULL;
}

static const char *
set_capacity(struct reading *reading)
{
	const char *problem = soma__size_parse(reading->value, &reading->settings->capacity);

	if (problem == NULL && reading->settings->capacity > 0 &&
	    reading->settings->capacity <= SOMA_MODEL_ADDRESS_MAX)
		return NULL;
	return wrong(reading, "a size such as 24G");
}

static const char *
set_backend(struct reading *reading)
{
	bool async = strcmp(reading->value, "cudaMallocAsync") == 0;

	if (!async && strcmp(reading->value, "native") != 0)
		return wrong(reading, "native or cudaMallocAsync");
	reading->settings->policy = soma_policy_preset(async ? "cuda" : "pytorch");
	return NULL;
}

static const struct {
	const char *key;
	const char *(*set)(struct reading *reading);
} keys[] = {
	{ "max_split_size_mb", set_max_split },
	{ "max_non_split_rounding_mb", set_slack },
	{ "garbage_collection_threshold", set_threshold },
	{ "roundup_power2_divisions", set_divisions },
	{ "expandable_segments", set_expandable },
	{ "backend", set_backend },
	{ "capacity", set_capacity },
};

#define KEYS (sizeof keys / sizeof keys[0])

static const char *
key_at(const void *unused, size_t index)
{
	(void)unused;
	return index < KEYS ? keys[index].key : NULL;
}

static const char *
unknown(struct reading *reading)
{
	const char *near = soma__name_near(reading->key, strlen(reading->key), key_at, NULL);

	snprintf(reading->buffer, reading->size, "unknown setting '%s'; %s%s%sthere are", reading->key,
		 near != NULL ? "did you mean '" : "", near != NULL ? near : "", near != NULL ? "'? " : "");
	for (size_t i = 0; i < KEYS; i++) {
		size_t used = strlen(reading->buffer);

		snprintf(reading->buffer + used, reading->size - used, "%s %s", i > 0 ? "," : "",
			 keys[i].key);
	}
	return reading->buffer;
}

#define PAIR_MAX 255

/* One "key=value" or "key:value", which becomes two texts; `given`: the keys that came before it. */
static const char *
set_pair(struct reading *reading, char *pair, unsigned *given)
{
	char *between = strpbrk(pair, "=:");

	if (between == NULL) {
		snprintf(reading->buffer, reading->size, "expected KEY=VALUE or KEY:VALUE, got '%s'", pair);
		return reading->buffer;
	}
	*between = '\0';
	reading->key = pair;
	reading->value = between + 1;
	for (unsigned i = 0; i < KEYS; i++) {
		if (strcmp(keys[i].key, pair) != 0)
			continue;
		if (*given & 1u << i) {
			snprintf(reading->buffer, reading->size, "%s is given twice, again as '%s': expected it once",
				 pair, reading->value);
			return reading->buffer;
		}
		*given |= 1u << i;
		return keys[i].set(reading);
	}
	return unknown(reading);
}

/* The end of one "key=value" or "key:value": a comma outside of brackets. */
static const char *
end_of_pair(const char *text)
{
	for (int depth = 0; *text != '\0'; text++) {
		depth += (*text == '[') - (*text == ']');
		if (*text == ',' && depth <= 0)
			break;
	}
	return text;
}

/* The variable, as it stands in a shell's line. */
static const char *
skip_variable(const char *text)
{
	static const char *const names[] = { "PYTORCH_CUDA_ALLOC_CONF=", "PYTORCH_ALLOC_CONF=" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strncmp(text, names[i], strlen(names[i])) == 0)
			return text + strlen(names[i]);
	return text;
}

const char *
settings_parse(const char *text, struct settings *settings, char *buffer, size_t size)
{
	struct reading reading = { .settings = settings, .buffer = buffer, .size = size };
	unsigned given = 0;

	text = skip_variable(text);
	*settings = (struct settings){ .non_split_slack = LARGE_SEGMENT_MB * MIB };
	for (;;) {
		const char *end = end_of_pair(text), *problem;
		char pair[PAIR_MAX + 1];

		if (end - text > PAIR_MAX) {
			snprintf(buffer, size, "expected at most %d bytes of KEY=VALUE, got %td: '%.64s...'", PAIR_MAX,
				 end - text, text);
			return buffer;
		}
		snprintf(pair, sizeof pair, "%.*s", (int)(end - text), text);
		problem = set_pair(&reading, pair, &given);
		if (problem != NULL || *end == '\0')
			return problem;
		text = end + 1;
	}
}

/* The divisions between two powers of two; a request above one of these goes to the next. */
uint64_t
settings_round(const void *context, uint64_t size)
{
	const struct settings *settings = context;
	unsigned power, index;
	uint64_t divisions, part;

	if (size <= BLOCK_LEAST || size > SOMA_MODEL_ADDRESS_MAX)
		return size;
	power = 63U - (unsigned)__builtin_clzll(size);
	index = power < 20 ? 0 : power - 20;
	divisions = settings->divisions[index < SETTINGS_INTERVALS ? index : SETTINGS_INTERVALS - 1];
	if (divisions <= 1 || size <= BLOCK_LEAST * divisions)
		return size;
	part = ((uint64_t)1 << power) / divisions;
	return (size + part - 1) / part * part;
}

void
settings_apply(const struct settings *settings, struct soma_policy *policy, struct replay_options *options)
{
	*policy = *(settings->policy != NULL ? settings->policy : soma_policy_preset("pytorch"));
	options->policy = policy;
	if (settings->capacity > 0)
		options->capacity = settings->capacity;
	if (strcmp(policy->name, "pytorch") != 0)
		return;
	policy->oversize = settings->max_split;
	policy->oversize_slack = settings->non_split_slack;
	policy->collect_above = (uint64_t)(settings->collect_threshold * (double)options->capacity);
	if (settings->expandable || settings->not_expandable)
		options->expandable =
			settings->expandable ? REPLAY_EXPANDABLE_ON : REPLAY_EXPANDABLE_OFF;
	options->round = settings->rounds ? settings_round : NULL;
	options->round_context = settings;
}
