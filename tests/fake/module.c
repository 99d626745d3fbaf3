/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules and kernels.  PTX is not run: a function exists if the module's text has an entry of that
 * name and there is a host implementation of it, by name (fake.h).
 */
#include "tests/fake/state.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS_MAX 16
#define USES_MAX 4096

struct kernel {
	struct kernel *next;
	struct fake_kernel is;
};

struct fake_module {
	struct handle handle;
	char *text;
};

struct fake_function {
	struct handle handle;
	struct fake_module *module;
	const struct kernel *kernel;
};

static struct kernel *kernels;

/* ---- the kernels that are always there ---------------------------------------------------- */

struct scan {
	uint64_t ptr, bytes;
	uint32_t pattern, reserved;
	uint64_t first_bad, bad_count;
};

static uint64_t
u64(const void *param)
{
	uint64_t value;

	memcpy(&value, param, sizeof value);
	return value;
}

static uint32_t
u32(const void *param)
{
	uint32_t value;

	memcpy(&value, param, sizeof value);
	return value;
}

static void *
at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void
scan_one(struct scan *s)
{
	const unsigned char *bytes = at(s->ptr);
	unsigned char pattern[4];

	memcpy(pattern, &s->pattern, 4);
	s->first_bad = UINT64_MAX;
	s->bad_count = 0;
	for (uint64_t i = 0; i < s->bytes; i++) {
		if (bytes[i] == pattern[(s->ptr + i) & 3])
			continue;
		if (s->bad_count++ == 0)
			s->first_bad = i;
	}
}

static void
scan_run(void *const *params, unsigned blocks, unsigned threads)
{
	struct scan *s = at(u64(params[0]));
	uint32_t count = u32(params[1]);

	(void)blocks;
	(void)threads;
	for (uint32_t i = 0; i < count; i++)
		if (region_holds(s[i].ptr, s[i].bytes))
			scan_one(&s[i]);
}

static size_t
scan_uses(void *const *params, struct fake_use *uses, size_t max)
{
	uint64_t ranges = u64(params[0]);
	uint32_t count = u32(params[1]);
	size_t n = 0;

	uses[n++] = (struct fake_use){ ranges, (uint64_t)count * sizeof(struct scan), true };
	if (!region_holds(ranges, (uint64_t)count * sizeof(struct scan)))
		return n;
	const struct scan *s = at(ranges);
	for (uint32_t i = 0; i < count && n < max; i++)
		uses[n++] = (struct fake_use){ s[i].ptr, s[i].bytes, false };
	return n;
}

static void
fill_run(void *const *params, unsigned blocks, unsigned threads)
{
	uint32_t value = u32(params[1]);

	(void)blocks;
	(void)threads;
	for (uint64_t i = 0; i < u64(params[2]); i++)
		memcpy(at(u64(params[0]) + 4 * i), &value, 4);
}

static size_t
fill_uses(void *const *params, struct fake_use *uses, size_t max)
{
	(void)max;
	uses[0] = (struct fake_use){ u64(params[0]), 4 * u64(params[2]), true };
	return 1;
}

static void
touch_run(void *const *params, unsigned blocks, unsigned threads)
{
	(void)blocks;
	(void)threads;
	memset(at(u64(params[0])), (int)u32(params[2]), u64(params[1]));
}

static size_t
touch_uses(void *const *params, struct fake_use *uses, size_t max)
{
	(void)max;
	uses[0] = (struct fake_use){ u64(params[0]), u64(params[1]), true };
	return 1;
}

static void
read_run(void *const *params, unsigned blocks, unsigned threads)
{
	(void)params;
	(void)blocks;
	(void)threads;
}

static size_t
read_uses(void *const *params, struct fake_use *uses, size_t max)
{
	(void)max;
	uses[0] = (struct fake_use){ u64(params[0]), u64(params[1]), false };
	return 1;
}

static const size_t scan_sizes[] = { 8, 4, 0 }, fill_sizes[] = { 8, 4, 8, 0 }, touch_sizes[] = { 8, 8, 4, 0 },
		    read_sizes[] = { 8, 8, 0 };
static struct kernel always[] = {
	{ &always[1], { "soma_scan", scan_sizes, scan_run, scan_uses } },
	{ &always[2], { "soma_fill", fill_sizes, fill_run, fill_uses } },
	{ &always[3], { "soma_touch", touch_sizes, touch_run, touch_uses } },
	{ NULL, { "soma_read", read_sizes, read_run, read_uses } },
};

static const struct kernel *
kernel_find(const char *name)
{
	for (const struct kernel *k = kernels; k != NULL; k = k->next)
		if (strcmp(k->is.name, name) == 0)
			return k;
	for (const struct kernel *k = always; k != NULL; k = k->next)
		if (strcmp(k->is.name, name) == 0)
			return k;
	return NULL;
}

EXPORT void
fake_cuda_kernel(const struct fake_kernel *kernel)
{
	struct kernel *k = calloc(1, sizeof *k);
	size_t n = 0;

	while (kernel->sizes[n] != 0 && n < PARAMS_MAX)
		n++;
	size_t *sizes = calloc(n + 1, sizeof *sizes);
	if (k == NULL || sizes == NULL)
		abort();
	memcpy(sizes, kernel->sizes, n * sizeof *sizes);
	k->is = *kernel;
	k->is.sizes = sizes;
	k->is.name = strdup(kernel->name);
	control_enter();
	k->next = kernels;
	kernels = k;
	control_leave();
}

void
kernels_restart(void)
{
	for (struct handle *h = handle_first(KIND_MODULE); h != NULL; h = h->next)
		if (h->live)
			module_fini((struct fake_module *)(void *)h);
	while (kernels != NULL) {
		struct kernel *k = kernels;
		kernels = k->next;
		free((void *)(uintptr_t)k->is.name);
		free((void *)(uintptr_t)k->is.sizes);
		free(k);
	}
}

/* ---- modules ------------------------------------------------------------------------------- */

static CUresult
load(CUmodule *module, const char *image)
{
	if (module == NULL || image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (strstr(image, ".version") == NULL)
		return CUDA_ERROR_INVALID_IMAGE;
	if (strstr(image, ".target") == NULL || strstr(image, ".address_size") == NULL)
		return CUDA_ERROR_INVALID_PTX;
	char *text = strdup(image);
	if (text == NULL)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct fake_module *m = handle_new(KIND_MODULE, sizeof *m, context_current());
	m->text = text;
	*module = m;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuModuleLoadData(CUmodule *module, const void *image)
{
	CALL(cuModuleLoadData, load(module, image));
}

void
module_fini(struct fake_module *module)
{
	free(module->text);
	module->text = NULL;
}

static CUresult
unload(CUmodule module)
{
	struct fake_module *m = handle_find(module, KIND_MODULE);

	if (m == NULL)
		return FAKE_STALE_HANDLE;
	for (struct handle *h = handle_first(KIND_FUNCTION); h != NULL; h = h->next)
		if (h->live && ((struct fake_function *)(void *)h)->module == m)
			handle_drop(h);
	module_fini(m);
	handle_drop(m);
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuModuleUnload(CUmodule module)
{
	CALL(cuModuleUnload, unload(module));
}

static bool
is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static bool
has_entry(const char *text, const char *name)
{
	size_t length = strlen(name);

	while ((text = strstr(text, ".entry")) != NULL) {
		text += strlen(".entry");
		text += strspn(text, " \t\r\n");
		if (strncmp(text, name, length) == 0 && !is_name(text[length]))
			return true;
	}
	return false;
}

static CUresult
get_function(CUfunction *function, CUmodule module, const char *name)
{
	if (function == NULL || name == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	struct fake_module *m = handle_find(module, KIND_MODULE);
	if (m == NULL)
		return FAKE_STALE_HANDLE;
	const struct kernel *kernel = kernel_find(name);
	if (kernel == NULL || !has_entry(m->text, name))
		return CUDA_ERROR_NOT_FOUND;
	struct fake_function *f = handle_new(KIND_FUNCTION, sizeof *f, m->handle.context);
	f->module = m;
	f->kernel = kernel;
	*function = f;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CALL(cuModuleGetFunction, get_function(function, module, name));
}

/* ---- launches ---------------------------------------------------------------------------------- */

/* A copy of each parameter, out of an array of pointers or out of one packed buffer. */
static CUresult
take_params(struct op *op, const size_t *sizes, void **params, void **extra)
{
	const char *packed = NULL;
	size_t total = 0, n = 0, offset = 0;

	for (size_t i = 0; extra != NULL && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			packed = extra[i + 1];
	for (; sizes[n] != 0; n++)
		total += (sizes[n] + 7) / 8 * 8;
	if (n != 0 && (params == NULL) == (packed == NULL))
		return CUDA_ERROR_INVALID_VALUE;
	char *copy = calloc(1, total + 1);
	if (copy == NULL)
		abort();
	op->data = copy;
	for (size_t i = 0; i < n; i++) {
		if (packed != NULL)
			offset = (offset + sizes[i] - 1) / sizes[i] * sizes[i];
		memcpy(copy, packed != NULL ? packed + offset : params[i], sizes[i]);
		offset += sizes[i];
		op->params[i] = copy;
		copy += (sizes[i] + 7) / 8 * 8;
	}
	return CUDA_SUCCESS;
}

static CUresult
take_uses(struct op *op, struct lane *lane, const struct fake_kernel *kernel)
{
	if (kernel->uses == NULL)
		return CUDA_SUCCESS;
	struct fake_use *uses = calloc(USES_MAX + 1, sizeof *uses);
	if (uses == NULL)
		abort();
	size_t n = kernel->uses(op->params, uses, USES_MAX + 1);
	for (size_t i = 0; i < n; i++) {
		struct fake_use *u = &uses[i];
		/* A kernel gets any address; a wild one faults when it runs. */
		if (op_use(op, lane, u->address, u->bytes, u->write) != CUDA_SUCCESS)
			op_use_wild(op, u->address, u->bytes);
	}
	free(uses);
	return CUDA_SUCCESS;
}

static CUresult
launch(CUfunction function, const unsigned *grid, const unsigned *block, CUstream stream, bool own,
       void **params, void **extra)
{
	struct lane *lane;
	CUresult result = lane_find(stream, own, &lane);

	if (result != CUDA_SUCCESS)
		return result;
	struct fake_function *f = handle_find(function, KIND_FUNCTION);
	if (f == NULL || f->handle.context != lane->context)
		return CUDA_ERROR_INVALID_HANDLE;
	uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
	uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
	if (blocks == 0 || threads == 0 || threads > 1024 || blocks > UINT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	struct op *op = op_new(OP_KERNEL, f->kernel->is.name);
	op->kernel = f->kernel->is.run;
	op->blocks = (unsigned)blocks;
	op->threads = (unsigned)threads;
	result = take_params(op, f->kernel->is.sizes, params, extra);
	if (result == CUDA_SUCCESS)
		result = take_uses(op, lane, &f->kernel->is);
	if (result == CUDA_SUCCESS)
		return submit(lane, op);
	op_free(op);
	return result;
}

EXPORT CUresult
cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
	       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params,
	       void **extra)
{
	const unsigned grid[] = { grid_x, grid_y, grid_z }, block[] = { block_x, block_y, block_z };

	(void)shared_bytes;
	CALL(cuLaunchKernel, launch(function, grid, block, stream, false, params, extra));
}

EXPORT CUresult
cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
		    unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **params,
		    void **extra)
{
	const unsigned grid[] = { grid_x, grid_y, grid_z }, block[] = { block_x, block_y, block_z };

	(void)shared_bytes;
	CALL(cuLaunchKernel, launch(function, grid, block, stream, true, params, extra));
}
