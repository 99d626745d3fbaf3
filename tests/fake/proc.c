/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of entries, and cuGetProcAddress: a name, a version and a flag to a function.
 */
#include "tests/fake/state.h"

#include <stdlib.h>
#include <string.h>

const char *const entry_names[ENTRIES] = {
#define X(name, symbol, since, flags, args) #symbol,
	FAKE_ENTRIES(X)
#undef X
};

const unsigned entry_flags_of[ENTRIES] = {
#define X(name, symbol, since, flags, args) flags,
	FAKE_ENTRIES(X)
#undef X
};

const int entry_since[ENTRIES] = {
#define X(name, symbol, since, flags, args) since,
	FAKE_ENTRIES(X)
#undef X
};

struct form {
	const char *name;
	int since;
	bool per_thread;
	void (*function)(void);
};

static const struct form forms[] = {
#define X(name, symbol, since, flags, args) { #name, since, false, (void (*)(void))symbol },
	FAKE_ENTRIES(X)
#undef X
#define X(name, symbol, since, entry, args) { #name, since, true, (void (*)(void))symbol },
		FAKE_PER_THREAD(X)
#undef X
};

#define FORMS (sizeof forms / sizeof forms[0])
#define HIDDEN_MAX 16

static char hidden[HIDDEN_MAX][64];
static unsigned hidden_count;

static void
hide(const char *name, size_t length)
{
	if (hidden_count < HIDDEN_MAX && length < sizeof hidden[0]) {
		memcpy(hidden[hidden_count], name, length);
		hidden[hidden_count++][length] = '\0';
	}
}

static void
hide_from_environment(void)
{
	const char *text = getenv("FAKE_CUDA_HIDE");

	while (text != NULL && *text != '\0') {
		size_t length = strcspn(text, ",");
		hide(text, length);
		text += length + (text[length] == ',');
	}
}

static bool
is_hidden(const char *name)
{
	static bool read;

	if (!read)
		hide_from_environment();
	read = true;
	for (unsigned i = 0; i < hidden_count; i++)
		if (strcmp(hidden[i], name) == 0)
			return true;
	return false;
}

void
proc_restart(void)
{
	hidden_count = 0;
	hide_from_environment();
}

EXPORT void
fake_cuda_hide(const char *name)
{
	control_enter();
	is_hidden("");
	if (name == NULL)
		hidden_count = 0;
	else
		hide(name, strlen(name));
	control_leave();
}

/* The newest form for the version; one for the own default stream before one of the same age. */
static const struct form *
find_form(const char *name, int version, bool per_thread, bool *known)
{
	const struct form *best = NULL;

	*known = false;
	for (size_t i = 0; i < FORMS; i++) {
		const struct form *f = &forms[i];
		if (strcmp(f->name, name) != 0 || f->since > world.version)
			continue;
		*known = true;
		if (f->since > version || (f->per_thread && !per_thread))
			continue;
		if (best == NULL || (f->per_thread && !best->per_thread) ||
		    (f->per_thread == best->per_thread && f->since > best->since))
			best = f;
	}
	return best;
}

static CUresult
get(const char *symbol, void **function, int version, uint64_t flags, CUdriverProcAddressQueryResult *status)
{
	bool known, per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;

	if (symbol == NULL || function == NULL || flags > 2 || version > world.version)
		return CUDA_ERROR_INVALID_VALUE;
	const struct form *form = find_form(symbol, version, per_thread, &known);
	if (is_hidden(symbol))
		form = NULL;
	*function = NULL;
	if (form != NULL)
		memcpy(function, &form->function, sizeof *function);
	if (status != NULL)
		*status = form != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
			  : known      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				       : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

EXPORT CUresult
cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
		    CUdriverProcAddressQueryResult *status)
{
	CALL(cuGetProcAddress_v2, get(symbol, function, version, flags, status));
}

static CUresult
get_or_fail(const char *symbol, void **function, int version, uint64_t flags)
{
	CUresult result = get(symbol, function, version, flags, NULL);

	return result == CUDA_SUCCESS && *function == NULL ? CUDA_ERROR_NOT_FOUND : result;
}

EXPORT CUresult
cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
	CALL(cuGetProcAddress, get_or_fail(symbol, function, version, flags));
}
