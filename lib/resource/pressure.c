/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done when memory or a budget is short, from the cheapest to the dearest, with the request tried
 * again after each step; and what a failure says in the end.
 *
 * `pressing` is held while the owner's callback runs, and by nobody who is not out of memory.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/resource/terminal.h"

#define HOLDERS 3

/* The terminals whose callbacks this thread is in, innermost first: not to be called again from within. */
struct pressed {
	const struct soma__terminal *terminal;
	const struct pressed *outer;
};

static _Thread_local const struct pressed *pressed;

static bool
is_shortage(enum soma_status status)
{
	return status == SOMA_STATUS_OUT_OF_BUDGET || status == SOMA_STATUS_OUT_OF_DEVICE_MEMORY;
}

/* What is missing, of what can be counted. */
static uint64_t
bytes_needed(const struct soma__call *call)
{
	uint64_t wanted = call->bytes + call->pressure, remaining, promised;

	if (wanted < call->bytes)
		wanted = UINT64_MAX;
	if (call->refused == NULL)
		return call->bytes;
	remaining = soma__account_remaining(call->refused);
	promised = soma__account_promised(call->refused);
	remaining = remaining > promised ? remaining - promised : 0;
	return wanted > remaining ? wanted - remaining : call->bytes;
}

/* ---- the steps: false where there is nothing of the kind ------------------------------ */

static bool
step_reap(struct soma__terminal *terminal, const struct soma__call *call)
{
	(void)call;
	(void)soma__terminal_reap(terminal);
	return true;
}

static bool
step_settle(struct soma__terminal *terminal, const struct soma__call *call)
{
	(void)call;
	return soma__terminal_can(terminal, SOMA_BACKEND_GUARD) &&
	       terminal->ops->guard_settle(terminal->self) == SOMA_STATUS_OK;
}

/* Only what is needed: what the guard still holds, it still watches. */
static bool
step_drain(struct soma__terminal *terminal, const struct soma__call *call)
{
	struct soma_backend_guard_stats stats = { .size = sizeof stats };
	uint64_t needed = bytes_needed(call);

	if (!soma__terminal_can(terminal, SOMA_BACKEND_GUARD) ||
	    terminal->ops->guard_stats(terminal->self, &stats) != SOMA_STATUS_OK)
		return false;
	return terminal->ops->guard_drain(terminal->self, stats.quarantined_bytes > needed
								  ? stats.quarantined_bytes - needed
								  : 0) == SOMA_STATUS_OK;
}

static bool
step_drain_all(struct soma__terminal *terminal, const struct soma__call *call)
{
	(void)call;
	return soma__terminal_can(terminal, SOMA_BACKEND_GUARD) &&
	       terminal->ops->guard_drain(terminal->self, 0) == SOMA_STATUS_OK;
}

/* Trimming gives nothing to a budget: those count blocks. */
static bool
step_trim(struct soma__terminal *terminal, const struct soma__call *call)
{
	return call->refused == NULL && soma__terminal_can(terminal, SOMA_BACKEND_POOL) &&
	       terminal->ops->pool_trim(terminal->self, 0) == SOMA_STATUS_OK;
}

/* A pool gives out or releases some memory only when the host has seen the end of its free.  What that brings in
 * reach goes the way of the steps before. */
static bool
step_synchronize(struct soma__terminal *terminal, const struct soma__call *call)
{
	if (call->refused != NULL ||
	    !soma__terminal_can(terminal, SOMA_BACKEND_POOL | SOMA_BACKEND_STREAMS) ||
	    terminal->ops->synchronize(terminal->self) != SOMA_STATUS_OK)
		return false;
	(void)soma__terminal_reap(terminal);
	(void)step_settle(terminal, call);
	(void)step_drain_all(terminal, call);
	(void)step_trim(terminal, call);
	return true;
}

static const struct step {
	const char *name;
	bool (*run)(struct soma__terminal *terminal, const struct soma__call *call);
} steps[] = {
	{ "reaped finished frees", step_reap }, { "settled the guard", step_settle },
	{ "drained quarantine", step_drain },   { "drained all quarantine", step_drain_all },
	{ "trimmed the pool", step_trim },      { "synchronised the device", step_synchronize },
};

#define STEPS (sizeof steps / sizeof steps[0])

/* A request that ran short. */
struct shortage {
	struct soma__call *call;
	soma__call_attempt *attempt;
	struct soma_error
		error;     /* of the last attempt: what runs between attempts records errors of its own */
	unsigned tried;    /* a bit for each step */
	unsigned attempts; /* calls of the owner */
};

/* Once more, with the record of what refused it last. */
static enum soma_status
try_again(struct shortage *shortage)
{
	enum soma_status status;

	shortage->call->refused = NULL;
	status = shortage->attempt(shortage->call);
	if (status != SOMA_STATUS_OK)
		shortage->error = *soma_error_last();
	return status;
}

/* ---- the owner's callback ------------------------------------------------------------- */

static soma_pressure_callback *
find_callback(const struct soma__call *call, void **context)
{
	soma_pressure_callback *callback = NULL;

	pthread_mutex_lock(&call->via->terminal->stack);
	for (const struct soma_resource *r = call->via; r != NULL && callback == NULL; r = r->next) {
		callback = r->callback;
		*context = r->callback_context;
	}
	pthread_mutex_unlock(&call->via->terminal->stack);
	return callback;
}

static bool
is_pressed(const struct soma__terminal *terminal)
{
	for (const struct pressed *p = pressed; p != NULL; p = p->outer)
		if (p->terminal == terminal)
			return true;
	return false;
}

bool
soma__pressure_inside(void)
{
	return pressed != NULL;
}

/* Waiting for another stack's turn from within a callback, two threads could wait for each other. */
static bool
take_turn(struct soma__terminal *terminal)
{
	if (pressed != NULL)
		return !is_pressed(terminal) && pthread_mutex_trylock(&terminal->pressing) == 0;
	pthread_mutex_lock(&terminal->pressing);
	return true;
}

void
soma_resource_set_pressure_callback(struct soma_resource *resource, soma_pressure_callback *callback,
				    void *context)
{
	struct soma__terminal *terminal = resource->terminal;
	bool wait = pressed == NULL;

	if (wait)
		pthread_mutex_lock(&terminal->pressing);
	pthread_mutex_lock(&terminal->stack);
	resource->callback = callback;
	resource->callback_context = context;
	pthread_mutex_unlock(&terminal->stack);
	if (wait)
		pthread_mutex_unlock(&terminal->pressing);
}

/* Another thread's callback may have helped this one while it waited for its turn. */
static enum soma_status
call_owner(struct shortage *shortage, enum soma_status status)
{
	struct soma__call *call = shortage->call;
	struct soma__terminal *terminal = call->via->terminal;
	const struct pressed frame = { terminal, pressed };
	void *context;
	soma_pressure_callback *callback;

	if (find_callback(call, &context) == NULL || !take_turn(terminal))
		return status;
	pressed = &frame;
	status = try_again(shortage);
	/* Once more: it may have been taken away while this thread waited for its turn. */
	callback = find_callback(call, &context);
	while (callback != NULL && is_shortage(status) && shortage->attempts < SOMA_PRESSURE_ATTEMPTS_MAX) {
		if (!callback(context, bytes_needed(call), ++shortage->attempts))
			break;
		(void)soma__terminal_reap(terminal);
		status = try_again(shortage);
	}
	pressed = frame.outer;
	pthread_mutex_unlock(&terminal->pressing);
	return status;
}

/* ---- failing ------------------------------------------------------------------------------ */

struct holders {
	struct soma_tag_account largest[HOLDERS];
};

static bool
note_holder(void *context, const struct soma_tag_account *account)
{
	struct holders *holders = context;
	struct soma_tag_account moved = *account;

	for (size_t i = 0; i < HOLDERS; i++) {
		struct soma_tag_account *place = &holders->largest[i], old = *place;
		if (moved.live_bytes <= place->live_bytes)
			continue;
		*place = moved;
		moved = old;
	}
	return true;
}

struct text {
	size_t used;
	char text[SOMA__ERROR_TEXT_MAX];
};

__attribute__((format(printf, 2, 3))) static void
append(struct text *text, const char *format, ...)
{
	va_list args;
	size_t room = sizeof text->text - text->used;

	va_start(args, format);
	int length = vsnprintf(text->text + text->used, room, format, args);
	va_end(args);
	if (length > 0)
		text->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void
append_holders(struct text *text, struct soma_resource *resource)
{
	struct holders holders = { 0 };
	char size[SOMA__SIZE_TEXT_MAX];

	soma_resource_walk_tags(resource, note_holder, &holders);
	for (size_t i = 0; i < HOLDERS && holders.largest[i].live_bytes > 0; i++) {
		const struct soma_tag_account *holder = &holders.largest[i];
		append(text, "%s%.40s %s", i == 0 ? "; most is held by " : ", ",
		       holder->tag == SOMA_TAG_NONE ? "(no tag)" : soma_tag_name(holder->tag),
		       soma__size_format(size, holder->live_bytes));
	}
}

static void
append_tried(struct text *text, unsigned tried, unsigned attempts)
{
	const char *before = "; tried: ";

	for (size_t i = 0; i < STEPS; i++) {
		if (!(tried & 1u << i))
			continue;
		append(text, "%s%s", before, steps[i].name);
		before = ", ";
	}
	if (attempts > 0)
		append(text, "%scalled the owner %u time%s", before, attempts, attempts == 1 ? "" : "s");
}

/* The figures are those of the last attempt; where the backend gave none, what the device says. */
static void
fill_figures(const struct soma__call *call, struct soma_error *error)
{
	struct soma__terminal *terminal = call->via->terminal;
	struct soma_backend_info info = { .size = sizeof info };

	error->requested = call->bytes;
	if (error->limit != 0 || terminal->ops->query(terminal->self, &info) != SOMA_STATUS_OK)
		return;
	error->limit = info.total;
	error->remaining = info.free;
	error->current = info.total > info.free ? info.total - info.free : 0;
}

/* Bytes that were freed and still count.  A budget in the ledger counts all of them; a tenant's are looked for. */
static uint64_t
retired_of(struct soma__terminal *terminal, const struct soma__account *account)
{
	uint32_t slots = atomic_load_explicit(&terminal->streams.slots, memory_order_acquire);
	struct soma_ledger sum = { .size = sizeof sum };
	uint64_t bytes;

	if (soma__account_is_charged(atomic_load_explicit(&terminal->ledger.domain, memory_order_acquire),
				     account)) {
		soma__ledger_sum(&terminal->ledger, &sum);
		return sum.retired_bytes;
	}
	bytes = soma__kept_of(&terminal->kept, account);
	for (uint32_t i = 0; i < slots; i++)
		bytes += soma__stream_pending_of(soma__stream_at(&terminal->streams, i), account);
	return bytes;
}

/* What somebody who was refused would want to know: whether to wait, or for whom to make room. */
static void
append_held(struct text *text, const struct soma_error *error)
{
	char size[SOMA__SIZE_EXACT_MAX];

	if (error->retired > 0)
		append(text, ", %s of it freed and not given back yet",
		       soma__size_exact(size, error->retired));
	if (error->promised > 0)
		append(text, "; %s more are promised", soma__size_exact(size, error->promised));
}

static enum soma_status
fail(const struct shortage *shortage, enum soma_status status)
{
	const struct soma__call *call = shortage->call;
	struct soma_error error = shortage->error;
	struct text text = { 0 };
	char requested[SOMA__SIZE_EXACT_MAX], current[SOMA__SIZE_EXACT_MAX], limit[SOMA__SIZE_EXACT_MAX];

	fill_figures(call, &error);
	/* Others may have allocated and freed since the last attempt, which is what the error tells of. */
	if (call->refused != NULL)
		error.retired = retired_of(call->via->terminal, call->refused);
	if (error.retired > error.current)
		error.retired = error.current;
	append(&text, "%s: %s requested, %s of %s in use", soma_status_text(status),
	       soma__size_exact(requested, error.requested), soma__size_exact(current, error.current),
	       soma__size_exact(limit, error.limit));
	append_held(&text, &error);
	if (call->hopeless)
		append(&text, "; larger than the limit");
	append_tried(&text, shortage->tried, shortage->attempts);
	append_holders(&text, call->via);
	(void)soma__error_text(status, "%s", text.text);
	soma__error_sizes(error.requested, error.current, error.remaining, error.limit);
	soma__error_held(error.promised, error.retired);
	soma__error_driver(error.driver_code);
	return status;
}

static void
tell_failed(const struct soma__call *call)
{
	for (struct soma_resource *o = call->via->observer; o != NULL; o = o->next->observer)
		o->ops->failed(o, call);
}

static enum soma_status
climb(struct shortage *shortage, enum soma_status status)
{
	struct soma__call *call = shortage->call;

	for (size_t i = 0; i < STEPS && is_shortage(status) && !call->hopeless; i++) {
		if (!steps[i].run(call->via->terminal, call))
			continue;
		shortage->tried |= 1u << i;
		status = try_again(shortage);
	}
	if (is_shortage(status) && !call->hopeless)
		status = call_owner(shortage, status);
	return status;
}

enum soma_status
soma__pressure_relieve(struct soma__call *call, soma__call_attempt *attempt, enum soma_status status)
{
	if (is_shortage(status)) {
		struct shortage shortage = { .call = call, .attempt = attempt, .error = *soma_error_last() };
		status = climb(&shortage, status);
		if (is_shortage(status))
			(void)fail(&shortage, status);
	}
	if (status != SOMA_STATUS_OK)
		tell_failed(call);
	return status;
}
