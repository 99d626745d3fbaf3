/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures on order: the Nth call of an entry, errors of earlier work, errors for ever.
 */
#include "tests/fake/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct order {
	uint64_t in; /* 0: none; 1: the next call */
	CUresult code;
};

static struct order orders[ENTRIES];
static struct order any;
static uint64_t calls[ENTRIES];
static uint64_t struck;

static bool
order_strikes(struct order *order)
{
	if (order->in == 0 || --order->in != 0)
		return false;
	struck++;
	return true;
}

CUresult
fail_now(enum entry entry)
{
	calls[entry]++;
	/* Both count, whichever strikes. */
	bool by_entry = order_strikes(&orders[entry]);
	bool by_any = (entry_flags_of[entry] & ENTRY_ALWAYS) == 0 && order_strikes(&any);

	if (by_entry)
		return orders[entry].code;
	return by_any ? any.code : CUDA_SUCCESS;
}

void
fail_restart(void)
{
	memset(orders, 0, sizeof orders);
	memset(calls, 0, sizeof calls);
	memset(&any, 0, sizeof any);
	struck = 0;
}

static int
entry_index(const char *name)
{
	for (int i = 0; i < ENTRIES; i++)
		if (strcmp(entry_names[i], name) == 0)
			return i;
	return -1;
}

static bool
order(const char *entry, uint64_t nth, int code)
{
	int i = entry != NULL ? entry_index(entry) : 0;

	if (i < 0)
		return false;
	*(entry != NULL ? &orders[i] : &any) = (struct order){ nth, (CUresult)code };
	return true;
}

/* "cuMemAlloc_v2:3:2,*:10:999"; NULL is nothing. */
bool
fail_parse(const char *text)
{
	char name[64];
	unsigned long long nth;
	int code, length;

	while (text != NULL && *text != '\0') {
		if (sscanf(text, "%63[^:]:%llu:%d%n", name, &nth, &code, &length) != 3)
			return false;
		if (!order(strcmp(name, "*") == 0 ? NULL : name, nth, code))
			return false;
		text += length;
		if (*text == ',')
			text++;
	}
	return true;
}

EXPORT bool
fake_cuda_fail(const char *entry, uint64_t nth, int code)
{
	control_enter();
	bool known = order(entry, nth, code);
	control_leave();
	return known;
}

EXPORT void
fake_cuda_fail_none(void)
{
	control_enter();
	memset(orders, 0, sizeof orders);
	memset(&any, 0, sizeof any);
	control_leave();
}

EXPORT uint64_t
fake_cuda_calls(const char *entry)
{
	uint64_t n = 0;

	control_enter();
	for (int i = 0; i < ENTRIES; i++)
		if (entry == NULL || strcmp(entry_names[i], entry) == 0)
			n += calls[i];
	control_leave();
	return n;
}

EXPORT uint64_t
fake_cuda_failures(void)
{
	control_enter();
	uint64_t n = struck;
	control_leave();
	return n;
}

EXPORT const char *
fake_cuda_entry(size_t i)
{
	return i < ENTRIES ? entry_names[i] : NULL;
}

/* ---- errors of work -------------------------------------------------------------------- */

void
context_fail(struct fake_context *context, CUresult code, bool sticky)
{
	if (sticky && context->sticky == CUDA_SUCCESS)
		context->sticky = code;
	else if (!sticky && context->deferred == CUDA_SUCCESS)
		context->deferred = code;
}

static struct fake_context *
context_of(int device)
{
	struct device *d = device_at(device);

	return d != NULL ? d->primary : NULL;
}

EXPORT void
fake_cuda_sticky(int device, int code)
{
	control_enter();
	struct fake_context *context = context_of(device);
	if (context != NULL)
		context->sticky = (CUresult)code;
	control_leave();
}

EXPORT void
fake_cuda_deferred(int device, int code)
{
	control_enter();
	struct fake_context *context = context_of(device);
	if (context != NULL)
		context->deferred = (CUresult)code;
	control_leave();
}

EXPORT void
fake_cuda_fail_work(int device, uint64_t nth, int code, bool sticky)
{
	control_enter();
	struct fake_context *context = context_of(device);
	if (context != NULL) {
		context->fail_in = nth;
		context->fail_code = (CUresult)code;
		context->fail_sticky = sticky;
	}
	control_leave();
}
