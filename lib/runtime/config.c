/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a runtime's keys, reading a string by it, and saying where in the string an error is that a
 * backend found.  No state, no locks.
 */
#include "lib/runtime/config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/resource/trace_ring.h"

/* ---- values --------------------------------------------------------------------- */

static enum soma_status
parse_device(const struct soma__option *option, const char *text, void *field)
{
	uint32_t device;

	if (soma__option_u32(option, text, &device) != SOMA_STATUS_OK || device > INT32_MAX)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"\"%.64s\" is not a device's number, from 0 to %d", text, INT32_MAX);
	*(uint32_t *)field = device;
	return SOMA_STATUS_OK;
}

static enum soma_status
parse_amount(const struct soma__option *option, const char *text, void *field)
{
	struct soma__amount amount = { .given = true, .bytes = UINT64_MAX };
	enum soma_status status = SOMA_STATUS_OK;

	if (strcmp(text, "auto") == 0)
		amount = (struct soma__amount){ 0 };
	else if (strcmp(text, "all") != 0)
		status = soma__option_size(option, text, &amount.bytes);
	if (status == SOMA_STATUS_OK)
		*(struct soma__amount *)field = amount;
	return status;
}

static enum soma_status
parse_ring(const struct soma__option *option, const char *text, void *field)
{
	uint32_t events;

	if (soma__option_u32(option, text, &events) != SOMA_STATUS_OK || events == 0 ||
	    events > SOMA__TRACE_RING_EVENTS_MAX)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "\"%.64s\" is not a number from 1 to %u",
					text, SOMA__TRACE_RING_EVENTS_MAX);
	*(uint32_t *)field = events;
	return SOMA_STATUS_OK;
}

static enum soma_status
parse_unit(const struct soma__option *option, const char *text, void *field)
{
	uint32_t unit;

	if (soma__option_u32(option, text, &unit) != SOMA_STATUS_OK || unit == 0)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "\"%.64s\" is not a number from 1 to %u",
					text, UINT32_MAX);
	*(uint32_t *)field = unit;
	return SOMA_STATUS_OK;
}

/* ---- the table -------------------------------------------------------------------- */

static const char *const placements[] = { "auto", "backend", "pool", NULL };

#define FIELD(name) offsetof(struct soma__runtime_config, name)

const struct soma__option soma__runtime_options[] = {
	{ "backend", "auto",
	  "where memory comes from: async, sync, host, or another module by its name; guard:NAME puts the "
	  "guard around one; auto is the first of async, sync and host that there is a device for",
	  FIELD(backend), soma__option_string, NULL },
	{ "backend_path", "", "folders of modules, with colons between them, that are looked in first",
	  FIELD(backend_path), soma__option_string, NULL },
	{ "device", "0", "the device, by its number", FIELD(device), parse_device, NULL },
	{ "budget", "0", "bytes outstanding at most, such as 8G; 0: no budget", FIELD(budget),
	  soma__option_size, NULL },
	{ "release_threshold", "auto",
	  "free memory that a pool keeps at a synchronisation: a size, or all; auto: the backend's own "
	  "choice, and all in pools of the library",
	  FIELD(release_threshold), parse_amount, NULL },
	{ "placement", "auto",
	  "where the blocks of a pool lie: backend (each is the backend's), or pool (within segments, which are "
	  "what budgets, tags and traces see then); auto: pool over sync and host, else backend",
	  FIELD(placement), soma__option_choice, placements },
	{ "max_pool_size", "0", "bytes that a pool may reserve; 0: no limit", FIELD(max_pool_size),
	  soma__option_size, NULL },
	{ "twin", "off",
	  "on: pools compare their model with the backend's own pool at every synchronisation and trim, and "
	  "tell the "
	  "first divergence; for finding out whether the model is right, not for use",
	  FIELD(twin), soma__option_bool, NULL },
	{ "twin_used_unit", "1",
	  "the driver counts a block's size in USED rounded up to a multiple of this; 1: as requested",
	  FIELD(twin_used_unit), parse_unit, NULL },
	{ "twin_reserved_tolerance", "0", "by so many bytes RESERVED may differ, such as 32M",
	  FIELD(twin_reserved_tolerance), soma__option_size, NULL },
	{ "trace", "", "file to write a trace to; in it %d is the device, %p the process, %% a percent sign",
	  FIELD(trace), soma__option_pattern, NULL },
	{ "trace_ring_events", "16384", "room for events on their way to the file", FIELD(trace_ring_events),
	  parse_ring, NULL },
	{ "trace_patience_ms", "1000", "how long a call waits for room before its event is dropped",
	  FIELD(trace_patience_ms), soma__option_u32, NULL },
	{ "trace_flush_ms", "100", "an event is in the file after at most about this", FIELD(trace_flush_ms),
	  soma__option_u32, NULL },
	{ 0 },
};

/* ---- modules' options --------------------------------------------------------------- */

static char *
copy(struct soma__arena *arena, const char *text)
{
	size_t size = strlen(text) + 1;
	char *made = soma__arena_alloc(arena, size, 0);

	return made != NULL ? memcpy(made, text, size) : NULL;
}

static enum soma_status
make_room(struct soma__runtime_config *config)
{
	size_t capacity = config->option_capacity != 0 ? 2 * config->option_capacity : 8;
	size_t size = config->option_capacity * sizeof *config->options;
	struct soma_backend_option *larger;

	if (config->option_count < config->option_capacity)
		return SOMA_STATUS_OK;
	larger = soma__arena_alloc(config->arena, capacity * sizeof *larger, 0);
	if (larger == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	if (size > 0)
		memcpy(larger, config->options, size);
	soma__arena_free(config->arena, config->options, size);
	config->options = larger;
	config->option_capacity = capacity;
	return SOMA_STATUS_OK;
}

static enum soma_status
take_option(void *context, const char *key, const char *value)
{
	struct soma__runtime_config *config = context;
	struct soma_backend_option option;

	if (make_room(config) != SOMA_STATUS_OK)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	option.key = copy(config->arena, key);
	option.value = copy(config->arena, value);
	if (option.key == NULL || option.value == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	config->options[config->option_count++] = option;
	return SOMA_STATUS_OK;
}

enum soma_status
soma__runtime_config_read(struct soma__runtime_config *config, struct soma__arena *arena, const char *source,
			  const char *text)
{
	const struct soma__option_others others = { .take = take_option, .context = config };
	enum soma_status status;

	*config = (struct soma__runtime_config){ .arena = arena };
	status = soma__config_init(soma__runtime_options, config);
	if (status != SOMA_STATUS_OK)
		return status;
	status = soma__config_parse_with(soma__runtime_options, source, text, config, &others);
	if (status != SOMA_STATUS_OK)
		soma__runtime_config_fini(config);
	return status;
}

void
soma__runtime_config_fini(struct soma__runtime_config *config)
{
	soma__config_fini(soma__runtime_options, config);
}

/* ---- errors ---------------------------------------------------------------------------- */

/* Where the error speaks of the option: as "guard.mode", or as the module knows it. */
static const char *
mention(const char *error, const char *key)
{
	const char *whole = strstr(error, key), *own = strchr(key, '.') + 1;
	char given[130];

	snprintf(given, sizeof given, "%s=", own);
	return whole != NULL ? whole : strstr(error, given);
}

/* The key that the error is about: the one that it names first, and of two that begin alike the longer. */
static const char *
blamed(const struct soma__runtime_config *config, const char *error)
{
	const char *key = NULL, *first = NULL;

	for (size_t i = 0; i < config->option_count; i++) {
		const char *at = mention(error, config->options[i].key);
		if (at == NULL || (first != NULL && at > first))
			continue;
		if (at == first && strlen(config->options[i].key) < strlen(key))
			continue;
		first = at;
		key = config->options[i].key;
	}
	return key;
}

enum soma_status
soma__runtime_config_explain(const struct soma__runtime_config *config, const char *source, const char *text,
			     enum soma_status status)
{
	char error[SOMA__ERROR_TEXT_MAX];
	const char *key;
	size_t place;

	if (status != SOMA_STATUS_INVALID_VALUE)
		return status;
	snprintf(error, sizeof error, "%s", soma_error_last()->text);
	key = blamed(config, error);
	place = soma__config_place(text, key != NULL ? key : "backend");
	if (place == 0)
		return soma__error_text(status, "%s: %s", source, error);
	return soma__error_text(status, "%s, character %zu: %s", source, place, error);
}

/* ---- the trace's path ------------------------------------------------------------------- */

bool
soma__runtime_config_trace(const struct soma__runtime_config *config, char *path, size_t size)
{
	size_t used = 0;
	int length;

	for (const char *at = config->trace; *at != '\0'; at++) {
		if (at[0] != '%')
			length = snprintf(path + used, size - used, "%c", *at);
		else if (*++at == 'd')
			length = snprintf(path + used, size - used, "%" PRIu32, config->device);
		else if (*at == 'p')
			length = snprintf(path + used, size - used, "%ld", (long)getpid());
		else
			length = snprintf(path + used, size - used, "%%");
		used += (size_t)length;
		if (used >= size)
			return false;
	}
	return true;
}
