/* SPDX-License-Identifier: Apache-2.0 */
/* The options of async: one table.  No state. */
#include "backends/cuda/async.h"

#include <stddef.h>
#include <string.h>

enum option_kind { OPTION_AMOUNT, OPTION_SWITCH, OPTION_CAPTURE };

#define FIELD(f) offsetof(struct async_options, f)

/* X(key, default, kind, field, text) */
#define OPTIONS(X)                                                                                     \
	X("release_threshold", "all", OPTION_AMOUNT, threshold,                                        \
	  "free memory that the pool keeps at a synchronisation: a size, or all")                      \
	X("max_size", "0", OPTION_AMOUNT, max_size,                                                    \
	  "the pool's memory at most, from CUDA 12.2 on; 0: what the device has")                      \
	X("reuse_follow_events", "on", OPTION_SWITCH, follow,                                          \
	  "on: an alloc may take memory whose free it is ordered after by events; off")                \
	X("reuse_opportunistic", "on", OPTION_SWITCH, opportunistic,                                   \
	  "on: an alloc may take memory whose free has run; off")                                      \
	X("reuse_internal", "on", OPTION_SWITCH, internal,                                             \
	  "on: an alloc may wait, on its stream, for another stream's free when memory is short; off") \
	X("capture", "refuse", OPTION_CAPTURE, captures,                                               \
	  "on a stream in a capture: refuse, or graph (the graph owns the memory)")                    \
	X("export", "off", OPTION_SWITCH, exports, "on: the pool can be exported to other processes; off")

const struct soma_backend_option_info async_option_table[] = {
#define X(key, value, kind, field, text) { key, value, text },
	OPTIONS(X)
#undef X
		{ NULL, NULL, NULL },
};

static const struct rule {
	enum option_kind kind;
	size_t offset;
} rules[] = {
#define X(key, value, kind, field, text) { kind, FIELD(field) },
	OPTIONS(X)
#undef X
};

static enum soma_status
read_amount(const struct soma_backend_host *host, const char *key, const char *value, uint64_t *bytes)
{
	if (strcmp(value, "all") == 0 && strcmp(key, "release_threshold") == 0) {
		*bytes = UINT64_MAX;
		return SOMA_STATUS_OK;
	}
	if (host->parse_size(host->context, value, bytes) == SOMA_STATUS_OK)
		return SOMA_STATUS_OK;
	return cuda_refuse(host, SOMA_STATUS_INVALID_VALUE,
			   "async.%s: \"%.64s\": a size such as 64M was expected%s", key, value,
			   strcmp(key, "release_threshold") == 0 ? ", or all" : "");
}

static enum soma_status
read_switch(const struct soma_backend_host *host, const char *key, const char *value, bool *field)
{
	static const char *const words[] = { "off", "on", "no", "yes", "0", "1", "false", "true" };

	for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (strcmp(words[i], value) == 0) {
			*field = i % 2 != 0;
			return SOMA_STATUS_OK;
		}
	}
	return cuda_refuse(host, SOMA_STATUS_INVALID_VALUE, "async.%s: \"%.64s\": on or off was expected",
			   key, value);
}

static enum soma_status
read_value(const struct soma_backend_host *host, size_t at, const char *value, struct async_options *options)
{
	const char *key = async_option_table[at].key;
	void *field = (char *)options + rules[at].offset;

	if (rules[at].kind == OPTION_AMOUNT)
		return read_amount(host, key, value, field);
	if (rules[at].kind == OPTION_SWITCH)
		return read_switch(host, key, value, field);
	options->captures = strcmp(value, "graph") == 0;
	if (options->captures || strcmp(value, "refuse") == 0)
		return SOMA_STATUS_OK;
	return cuda_refuse(host, SOMA_STATUS_INVALID_VALUE,
			   "async.%s: \"%.64s\": refuse or graph was expected", key, value);
}

enum soma_status
async_options_read(const struct soma_backend_open *how, struct async_options *options)
{
	enum soma_status status = SOMA_STATUS_OK;

	*options = (struct async_options){ 0 };
	for (size_t i = 0; async_option_table[i].key != NULL && status == SOMA_STATUS_OK; i++) {
		const char *value = async_option_table[i].default_text;
		for (size_t j = 0; j < how->option_count; j++)
			if (strcmp(how->options[j].key, async_option_table[i].key) == 0)
				value = how->options[j].value;
		status = read_value(how->host, i, value, options);
	}
	return status;
}
