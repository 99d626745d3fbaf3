/* SPDX-License-Identifier: Apache-2.0 */
/* The first difference between the two engines, put into words; see sequence_state.h. */
#include "tests/sequence_state.h"

#include <inttypes.h>
#include <stdarg.h>

bool
run_differs(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->difference, sizeof run->difference, format, args);
	va_end(args);
	return false;
}

bool
run_same(struct run *run, const char *what, uint64_t a, uint64_t b)
{
	if (a == b)
		return true;
	return run_differs(run, "%s: %s %" PRIu64 " (0x%" PRIx64 "), %s %" PRIu64 " (0x%" PRIx64 ")", what,
			   run->pair->engine[0]->name, a, a, run->pair->engine[1]->name, b, b);
}

bool
run_same_status(struct run *run, const enum soma_status status[2])
{
	run->status = status[1];
	if (status[0] != status[1])
		return run_differs(run, "status: %s %s, %s %s (last error: %s)", run->pair->engine[0]->name,
				   soma_status_name(status[0]), run->pair->engine[1]->name,
				   soma_status_name(status[1]), soma_error_last()->text);
	for (unsigned i = 0; i < 2 && status[i] != SOMA_STATUS_OK; i++)
		if (run->pair->engine[i]->records_errors && soma_error_last()->status != status[i])
			return run_differs(run, "soma_error_last() says %s after %s",
					   soma_status_name(soma_error_last()->status),
					   soma_status_name(status[i]));
	return true;
}

bool
run_same_stats(struct run *run)
{
	struct soma_model_stats s[2];

	for (unsigned i = 0; i < 2; i++)
		run->pair->engine[i]->stats(run->handle[i], &s[i]);
#define X(name)                                          \
	if (!run_same(run, #name, s[0].name, s[1].name)) \
		return false;
	SOMA_MODEL_COUNTER_MAP(X)
#undef X
	if (run->source[0].broken)
		return run_differs(run, "pages were mapped twice, or unmapped that were not mapped");
	return run_same(run, "calls of the segment source (digest)", run->source[0].digest,
			run->source[1].digest);
}
