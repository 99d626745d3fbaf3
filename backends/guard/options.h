/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard's options: one table for names, defaults and documentation, read at
 * open.  Constant afterwards.
 */
#ifndef SOMA_BACKENDS_GUARD_OPTIONS_H
#define SOMA_BACKENDS_GUARD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <soma/backend.h>

enum guard_mode { GUARD_OFF, GUARD_CANARY, GUARD_FULL };
enum guard_race { GUARD_RACE_AUTO, GUARD_RACE_STRICT, GUARD_RACE_CONFIRM, GUARD_RACE_OFF };
enum guard_on_error { GUARD_REPORT, GUARD_ABORT, GUARD_CALLBACK };

#define GUARD_AUTO UINT64_MAX
#define GUARD_PATH_MAX 512u

struct guard_options {
	unsigned mode;     /* enum guard_mode */
	unsigned race;     /* enum guard_race; not AUTO once resolved */
	unsigned on_error; /* enum guard_on_error */
	bool poison_alloc, poison_free;
	uint64_t redzone_left, redzone_right_max;
	uint64_t quarantine_bytes, quarantine_blocks, quarantine_max_block;
	uint64_t tombstones;
	uint64_t vmm_sample; /* one in so many; 0: none */
	uint64_t vmm_bytes;  /* 0: unlimited */
	uint64_t vmm_seed;
	uint64_t backtrace;
	uint64_t report_limit;
	char output[GUARD_PATH_MAX]; /* "": stderr */
	char json[GUARD_PATH_MAX];   /* "": none */
	char map[GUARD_PATH_MAX];    /* "": none */
};

extern const struct soma_backend_option_info guard_option_table[];

/* Defaults, then what `how` says; a failure is recorded with host->fail. */
enum soma_status guard_options_read(struct guard_options *options, const struct soma_backend_open *how);

/* Puts numbers for AUTO, by the device's memory and kind. */
void guard_options_resolve(struct guard_options *options, bool host_memory, uint64_t total);

#endif
