/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a configuration string says of a runtime.  The table is the one place that knows the
 * keys; those of modules ("guard.mode") are collected and checked by lib/plugin.  No state, no locks.
 */
#ifndef SOMA_LIB_RUNTIME_CONFIG_H
#define SOMA_LIB_RUNTIME_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>
#include <soma/resource.h>

#include "lib/arena/arena.h"
#include "lib/base/options.h"

enum soma__placement {
	SOMA__PLACEMENT_AUTO = 0,
	SOMA__PLACEMENT_BACKEND = 1,
	SOMA__PLACEMENT_POOL = 2,
};

/* A size that need not be given. */
struct soma__amount {
	bool given;
	uint64_t bytes; /* UINT64_MAX: all */
};

struct soma__runtime_config {
	char *backend;
	char *backend_path;
	uint32_t device;
	uint64_t budget; /* 0: none */
	struct soma__amount release_threshold;
	unsigned placement;     /* enum soma__placement */
	uint64_t max_pool_size; /* 0: no limit */
	bool twin;
	uint32_t twin_used_unit;
	uint64_t twin_reserved_tolerance;
	char *trace; /* "": none */
	uint32_t trace_ring_events;
	uint32_t trace_patience_ms;
	uint32_t trace_flush_ms;

	/* The modules' options in the order of the string; in `arena`. */
	struct soma__arena *arena;
	struct soma_backend_option *options;
	size_t option_count;
	size_t option_capacity;
};

extern const struct soma__option soma__runtime_options[];

/* Reads a string into a new config whose options lie in `arena`; `source` names it in errors.  After
 * an error there is nothing to give back but the arena. */
enum soma_status soma__runtime_config_read(struct soma__runtime_config *config, struct soma__arena *arena,
					   const char *source, const char *text);
void soma__runtime_config_fini(struct soma__runtime_config *config);

/*
 * A backend refused the configuration, and its error is the one recorded: puts before its text where in the
 * string the key stands that it is about.  Returns `status`.
 */
enum soma_status soma__runtime_config_explain(const struct soma__runtime_config *config, const char *source,
					      const char *text, enum soma_status status);

/* The trace's path with %d, %p and %% replaced.  False: it is too long. */
bool soma__runtime_config_trace(const struct soma__runtime_config *config, char *path, size_t size);

#endif
