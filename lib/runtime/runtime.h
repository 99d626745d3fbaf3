/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime, as the parts of lib/runtime see it.  Nothing in it changes after it was opened but the references
 * and the streams, which have their own lock.
 *
 * What is built on a runtime (pools) reads `config`, for placement, release_threshold and max_pool_size, and
 * takes its memory from `resource`.
 */
#ifndef SOMA_LIB_RUNTIME_RUNTIME_H
#define SOMA_LIB_RUNTIME_RUNTIME_H

#include <stdatomic.h>

#include <soma/runtime.h>

#include "lib/plugin/backend.h"
#include "lib/runtime/config.h"
#include "lib/runtime/registry.h"

struct soma_runtime {
	_Atomic uint32_t references; /* of one in the table of devices: under its mutex when they sink */
	bool of_device;              /* it is in that table */
	struct soma__arena *arena;
	struct soma__runtime_config config;
	struct soma_resource *resource; /* the top */
	struct soma__backend *backend;
	struct soma__registry streams;
	char backend_name[64];
};

/* For the table of devices: as SOMA_CONF says, but for the device. */
enum soma_status soma__runtime_open_device(int device, struct soma_runtime **runtime);

/* streams.c: the registry, with the legacy default stream in it. */
enum soma_status soma__runtime_streams_init(struct soma_runtime *runtime);

/* The last reference is gone. */
void soma__runtime_close(struct soma_runtime *runtime);

#endif
