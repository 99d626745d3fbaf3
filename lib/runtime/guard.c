/* SPDX-License-Identifier: Apache-2.0 */
/* The guard of a stack, for programs: its ops under public names.  No locks of its own. */
#include <soma/runtime.h>

#include "lib/base/error.h"
#include "lib/resource/open.h"
#include "lib/resource/terminal.h"

/* NULL: there is none, with the error recorded. */
static struct soma__terminal *
guard_of(struct soma_resource *resource)
{
	if (soma__terminal_can(resource->terminal, SOMA_BACKEND_GUARD))
		return resource->terminal;
	soma__fail(NOT_FOUND, "there is no guard in this stack: configure backend=guard:NAME");
	return NULL;
}

enum soma_status
soma_guard_stats(struct soma_resource *resource, struct soma_guard_stats *stats)
{
	struct soma__terminal *terminal = guard_of(resource);
	struct soma_backend_guard_stats from = { .size = sizeof from };
	enum soma_status status;

	if (terminal == NULL)
		return SOMA_STATUS_NOT_FOUND;
	if (stats->size < sizeof *stats)
		return soma__resource_bad_size("a guard's statistics", stats->size, sizeof *stats);
	status = terminal->ops->guard_stats(terminal->self, &from);
	if (status != SOMA_STATUS_OK)
		return status;
	stats->reports = from.reports;
	stats->live_blocks = from.live_blocks;
	stats->retired_blocks = from.retired_blocks;
	stats->retired_bytes = from.retired_bytes;
	stats->quarantined_blocks = from.quarantined_blocks;
	stats->quarantined_bytes = from.quarantined_bytes;
	stats->condemned_blocks = from.condemned_blocks;
	stats->condemned_bytes = from.condemned_bytes;
	return SOMA_STATUS_OK;
}

enum soma_status
soma_guard_scan(struct soma_resource *resource, uint64_t *damaged)
{
	struct soma__terminal *terminal = guard_of(resource);

	return terminal != NULL ? terminal->ops->guard_scan(terminal->self, damaged) : SOMA_STATUS_NOT_FOUND;
}

struct listening {
	soma_guard_listener *listener;
	void *context;
};

static void
pass_on(void *context, const struct soma_backend_guard_report *report)
{
	const struct listening *to = context;

	to->listener(to->context, &(struct soma_guard_report){ .size = sizeof(struct soma_guard_report),
							       .kind = report->kind,
							       .ptr = report->ptr,
							       .text = report->text,
							       .json = report->json });
}

/* What is passed as a context stays until the backend is closed: a report may be on its way to it, and close
 * itself makes reports of leaks. */
enum soma_status
soma_guard_listen(struct soma_resource *resource, soma_guard_listener *listener, void *context)
{
	struct soma__terminal *terminal = guard_of(resource);
	struct listening *to;

	if (terminal == NULL)
		return SOMA_STATUS_NOT_FOUND;
	if (listener == NULL)
		return terminal->ops->guard_listen(terminal->self, NULL, NULL);
	to = soma__resource_keep(resource, sizeof *to);
	if (to == NULL)
		return SOMA_STATUS_OUT_OF_HOST_MEMORY;
	*to = (struct listening){ .listener = listener, .context = context };
	return terminal->ops->guard_listen(terminal->self, pass_on, to);
}
