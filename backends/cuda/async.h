/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of async share: its pool, and its sharing with processes and devices. */
#ifndef SOMA_BACKENDS_CUDA_ASYNC_H
#define SOMA_BACKENDS_CUDA_ASYNC_H

#include "backends/cuda/device.h"

struct async_options {
	uint64_t threshold;
	uint64_t max_size; /* 0: the driver's own */
	bool follow, opportunistic, internal;
	bool captures, exports;
};

/* ---- options.c ---- */
extern const struct soma_backend_option_info async_option_table[];
enum soma_status async_options_read(const struct soma_backend_open *how, struct async_options *options);

/* ---- pool.c ---- */
/* The device's pool by the options; NOT_SUPPORTED: the device has none.  Within a scope. */
enum soma_status async_pool_open(struct soma_backend *self, const struct async_options *options);
enum soma_status async_pool_get(struct soma_backend *self, enum soma_backend_attribute attribute,
				uint64_t *value);
enum soma_status async_pool_set(struct soma_backend *self, enum soma_backend_attribute attribute,
				uint64_t value);
enum soma_status async_pool_trim(struct soma_backend *self, uint64_t keep);

/* ---- share.c ---- */
enum soma_status async_export_pool(struct soma_backend *self, enum soma_backend_handle_kind kind,
				   int *descriptor);
enum soma_status async_export_block(struct soma_backend *self, uint64_t ptr,
				    struct soma_backend_exported *name);
enum soma_status async_import_pool(struct soma_backend *self, enum soma_backend_handle_kind kind,
				   int descriptor, struct soma_backend_import **import);
enum soma_status async_import_block(struct soma_backend *self, struct soma_backend_import *import,
				    const struct soma_backend_exported *name, uint64_t *ptr);
enum soma_status async_import_free(struct soma_backend *self, struct soma_backend_import *import,
				   uint64_t ptr, struct soma_backend_stream *stream);
void async_import_close(struct soma_backend *self, struct soma_backend_import *import);
/* Gives back what is still imported.  Within a scope. */
void async_imports_close(struct soma_backend *self);
enum soma_status async_peer_can_access(struct soma_backend *self, int device, bool *can);
enum soma_status async_peer_set_access(struct soma_backend *self, int device,
				       enum soma_backend_access access);

#endif
