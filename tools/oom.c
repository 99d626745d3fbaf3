/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `soma oom`: why memory ran out, and what would have helped.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/engine/autopsy.h"
#include "tools/engine/fit.h"
#include "tools/engine/lives.h"
#include "tools/engine/session.h"
#include "tools/engine/settings.h"
#include "tools/report/report.h"
#include "tools/units.h"
#include "tools/xalloc.h"

#define HOLDERS_SHOWN 8
#define NAME_WIDTH 56
#define REMEDIES_MAX 32

struct oom_values {
	uint64_t capacity;
	unsigned policy, complete;
	int32_t device;
	bool json;
};

const char *const oom_paragraphs[] = {
	"Explains why the trace ran out of memory: by the out-of-memory event that it records, or, with "
	"--capacity, by where a replay under that capacity fails first. Says how many bytes were short, which "
	"live blocks keep segments that are mostly free, and who held the most.",
	"The reason is one of: truly too big (not even without any waste); the smallest segment for it is "
	"larger than the capacity; fragmentation (the bytes are free, but not in one piece); stranded on other "
	"streams; frees that have not executed; rounding; cached but not released (segments that are wholly "
	"free would have been enough); outside (other memory on the device, when --capacity tells its size).",
	"Whatever is said to help was replayed, and passed: a capacity, settings of the allocator, another "
	"policy. The exit status is 1 when memory ran out, 0 when it did not.",
	NULL,
};

#define FIELD(name) offsetof(struct oom_values, name)

const struct option_row oom_options[] = {
	{ "capacity", 'c', OPTION_SIZE, FIELD(capacity), "SIZE", NULL,
	  "The most that may be reserved; for a trace with an out-of-memory event, the size of the device. The "
	  "default is what was reserved and free at that event." },
	{ "policy", 'p', OPTION_CHOICE, FIELD(policy), "auto|strict|cuda|pytorch|soma", replay_policy_names,
	  "The allocator; see soma replay." },
	{ "complete", 'k', OPTION_CHOICE, FIELD(complete), "free|sync|never", replay_complete_names,
	  "When a stream has executed a free; see soma replay." },
	{ "device", 'd', OPTION_NUMBER, FIELD(device), "N", NULL,
	  "The device. The default is that of the first out-of-memory event, else the one with the most "
	  "allocations." },
	{ "json", 'j', OPTION_FLAG, FIELD(json), NULL, NULL,
	  "Print one JSON object instead of the report; sizes in it are bytes." },
	{ .name = NULL },
};

/* What was tried, and passed. */
struct remedy {
	char text[96];
	uint64_t capacity, reserved;
};

struct answer {
	const struct command *command;
	const struct oom_values *values;
	const char *path;
	struct trace_reader *reader;
	struct replay_session *session;
	struct trace_error error;
	const struct soma_policy *policy;
	int32_t device;
	uint64_t capacity; /* under which it fails, and remedies are tried */
	struct autopsy autopsy;
	const char *reason;
	uint64_t short_by;
	uint64_t outside; /* bytes of the device that others have */
	bool reproduced;  /* the replay under `capacity` fails, too */
	struct remedy remedies[REMEDIES_MAX];
	size_t remedy_count, tried;
	uint64_t fits; /* the capacity at which it passes; 0: none was found */
	enum fit_claim claim;
};

/* ---- what happened --------------------------------------------------------------- */

static struct replay_options
options_of(const struct answer *answer, uint64_t capacity)
{
	struct replay_options options = answer_options();

	options.policy = answer->policy;
	options.complete = (enum replay_complete)answer->values->complete;
	options.device = answer->device;
	options.capacity = capacity;
	options.try_recorded = true;
	return options;
}

/* The device of the first failure that the trace tells of. */
static enum soma_status
find_device(struct answer *answer)
{
	struct trace_event event;
	enum trace_result result = TRACE_OK;

	answer->device = answer->values->device;
	if (answer->device != REPLAY_DEVICE_ANY)
		return SOMA_STATUS_OK;
	if (trace_rewind(answer->reader, &answer->error) != TRACE_OK)
		return SOMA_STATUS_IO;
	while ((result = trace_next(answer->reader, &event, &answer->error)) == TRACE_OK) {
		if (event.op == TRACE_OOM || (event.op == TRACE_ALLOC_FAILED && event.size > 0)) {
			answer->device = event.device;
			break;
		}
	}
	return result == TRACE_ERROR ? SOMA_STATUS_PARSE : SOMA_STATUS_OK;
}

/* One replay with an autopsy of its first failure: under the capacity, or what is recorded. */
static enum soma_status
examine(struct answer *answer, uint64_t capacity, bool recorded)
{
	struct replay_options options = options_of(answer, capacity);
	struct replay_result result;
	enum soma_status status;

	autopsy_fini(&answer->autopsy);
	options.autopsy = &answer->autopsy;
	options.try_recorded = !recorded;
	status = replay_again(answer->session, &options, &result, &answer->error);
	if (status != SOMA_STATUS_OK)
		return status;
	answer->policy = result.policy;
	answer->reproduced = result.oom.happened;
	replay_result_fini(&result);
	return SOMA_STATUS_OK;
}

static bool
fails_at(struct answer *answer, uint64_t capacity, enum soma_status *status)
{
	struct replay_options options = options_of(answer, capacity);
	struct replay_result result;
	bool failed;

	options.stop_at_failure = true;
	*status = replay_again(answer->session, &options, &result, &answer->error);
	if (*status != SOMA_STATUS_OK)
		return false;
	failed = result.oom.happened;
	replay_result_fini(&result);
	return failed;
}

/* The trace's own failure, unless the capacity makes the replay fail before it. */
static enum soma_status
find_failure(struct answer *answer)
{
	uint64_t given = answer->values->capacity;
	enum soma_status status = examine(answer, given, true);
	const struct autopsy *autopsy = &answer->autopsy;

	answer->capacity = given;
	if (status != SOMA_STATUS_OK || !autopsy->taken)
		return status;
	if (!autopsy->recorded || !autopsy->has_device_free)
		return SOMA_STATUS_OK;
	answer->capacity = autopsy->moment.reserved + autopsy->device_free;
	if (given > answer->capacity)
		answer->outside = given - answer->capacity;
	answer->reproduced = fails_at(answer, answer->capacity, &status);
	return status;
}

static void
find_reason(struct answer *answer)
{
	const struct autopsy *autopsy = &answer->autopsy;

	answer->short_by = autopsy->verdict.short_by;
	answer->reason = replay_oom_text(autopsy->verdict.reason);
	if (answer->outside >= answer->short_by && answer->outside > 0)
		answer->reason = "outside the library";
	else if (autopsy->verdict.reason != REPLAY_OOM_TOO_BIG && autopsy->idle >= answer->short_by &&
		 answer->short_by > 0)
		answer->reason = "cached but not released";
}

/* ---- what would have helped --------------------------------------------------------- */

static enum soma_status
try_remedy(struct answer *answer, const struct replay_options *options, const char *text)
{
	struct replay_options wanted = *options;
	struct replay_result result;
	enum soma_status status;

	wanted.stop_at_failure = true;
	answer->tried++;
	status = replay_again(answer->session, &wanted, &result, &answer->error);
	if (status == SOMA_STATUS_NOT_SUPPORTED)
		return SOMA_STATUS_OK;
	if (status != SOMA_STATUS_OK)
		return status;
	if (!result.oom.happened && answer->remedy_count < REMEDIES_MAX) {
		struct remedy *remedy = &answer->remedies[answer->remedy_count++];

		snprintf(remedy->text, sizeof remedy->text, "%s", text);
		remedy->capacity = wanted.capacity;
		remedy->reserved = result.peak_reserved;
	}
	replay_result_fini(&result);
	return SOMA_STATUS_OK;
}

static enum soma_status
try_settings(struct answer *answer)
{
	static const char *const candidates[] = {
		"max_split_size_mb=32",
		"max_split_size_mb=64",
		"max_split_size_mb=128",
		"max_split_size_mb=256",
		"max_split_size_mb=512",
		"max_split_size_mb=128,max_non_split_rounding_mb=512",
		"garbage_collection_threshold=0.8",
		"max_split_size_mb=128,garbage_collection_threshold=0.8",
		"roundup_power2_divisions=4",
		"roundup_power2_divisions=8",
		"roundup_power2_divisions=16",
		"expandable_segments=True",
	};
	enum soma_status status = SOMA_STATUS_OK;

	for (size_t i = 0; status == SOMA_STATUS_OK && i < sizeof candidates / sizeof candidates[0]; i++) {
		struct replay_options options = options_of(answer, answer->capacity);
		struct settings settings;
		struct soma_policy policy;
		char buffer[256];

		if (settings_parse(candidates[i], &settings, buffer, sizeof buffer) != NULL ||
		    settings_unsupported(&settings) != NULL)
			continue;
		settings_apply(&settings, &policy, &options);
		status = try_remedy(answer, &options, candidates[i]);
	}
	return status;
}

static enum soma_status
try_policies(struct answer *answer)
{
	const struct soma_policy *policy;
	enum soma_status status = SOMA_STATUS_OK;

	for (size_t i = 0; status == SOMA_STATUS_OK && (policy = soma_policy_at(i)) != NULL; i++) {
		struct replay_options options = options_of(answer, answer->capacity);
		char text[64];

		if (strcmp(policy->name, answer->policy->name) == 0)
			continue;
		options.policy = policy;
		snprintf(text, sizeof text, "the policy %s", policy->name);
		status = try_remedy(answer, &options, text);
	}
	return status;
}

static enum soma_status
try_waiting(struct answer *answer)
{
	struct replay_options options = options_of(answer, answer->capacity);

	if (options.complete == REPLAY_COMPLETE_FREE)
		return SOMA_STATUS_OK;
	options.complete = REPLAY_COMPLETE_FREE;
	return try_remedy(answer, &options, "waiting until frees have executed");
}

static enum soma_status
find_capacity(struct answer *answer)
{
	struct replay_options options = options_of(answer, 0);
	struct lives lives;
	struct fit fit = { 0 };
	enum soma_status status = lives_read(answer->session, answer->device, answer->policy->alignment, 0,
					     &lives, &answer->error);
	uint64_t bound = answer->capacity > lives.peak_rounded ? answer->capacity : lives.peak_rounded;

	if (status == SOMA_STATUS_OK)
		status = fit_find(answer->session, &options, bound, FIT_EVENTS_DEFAULT, &fit, &answer->error);
	lives_fini(&lives);
	if (status != SOMA_STATUS_OK || fit.claim == FIT_NEVER)
		return status;
	answer->fits = fit.capacity;
	answer->claim = fit.claim;
	return SOMA_STATUS_OK;
}

static enum soma_status
find_remedies(struct answer *answer)
{
	enum soma_status status = find_capacity(answer);

	if (answer->capacity == 0 || !answer->reproduced)
		return status;
	if (status == SOMA_STATUS_OK)
		status = try_waiting(answer);
	if (status == SOMA_STATUS_OK && strcmp(answer->policy->name, "pytorch") == 0)
		status = try_settings(answer);
	if (status == SOMA_STATUS_OK)
		status = try_policies(answer);
	return status;
}

/* ---- holders ---------------------------------------------------------------------- */

struct share {
	char *name;
	uint64_t bytes, blocks;
};

struct shares {
	struct share *at;
	size_t count;
};

static int
by_share_name(const void *left, const void *right)
{
	const struct share *a = left, *b = right;

	return strcmp(a->name, b->name);
}

static int
by_share(const void *left, const void *right)
{
	const struct share *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* By frame as the trace names them, or by tag: without the place. */
static struct shares
shares_of(const struct answer *answer, bool by_tag)
{
	const struct autopsy *autopsy = &answer->autopsy;
	struct shares shares = { .at = xcalloc(autopsy->holder_count, sizeof(struct share)) };
	size_t kept = 0;

	for (size_t i = 0; i < autopsy->holder_count; i++) {
		char *name = answer_holder(answer->reader, autopsy->holders[i].name);

		if (by_tag)
			answer_drop_place(name);
		shares.at[shares.count++] =
			(struct share){ name, autopsy->holders[i].bytes, autopsy->holders[i].blocks };
	}
	if (shares.count > 0)
		qsort(shares.at, shares.count, sizeof *shares.at, by_share_name);
	for (size_t i = 0; i < shares.count; i++) {
		if (kept > 0 && strcmp(shares.at[kept - 1].name, shares.at[i].name) == 0) {
			shares.at[kept - 1].bytes += shares.at[i].bytes;
			shares.at[kept - 1].blocks += shares.at[i].blocks;
			free(shares.at[i].name);
		} else {
			shares.at[kept++] = shares.at[i];
		}
	}
	shares.count = kept;
	if (kept > 0)
		qsort(shares.at, kept, sizeof *shares.at, by_share);
	return shares;
}

static void
shares_fini(struct shares *shares)
{
	for (size_t i = 0; i < shares->count; i++)
		free(shares->at[i].name);
	free(shares->at);
}

/* ---- text -------------------------------------------------------------------------- */

static void
size_line(const char *label, uint64_t bytes)
{
	char size[UNITS_MAX];

	printf("  %-28s %10s\n", label, units_bytes(size, bytes));
}

static void
print_moment(const struct answer *answer)
{
	const struct autopsy *autopsy = &answer->autopsy;

	size_line("Live, as requested", autopsy->moment.live_requested);
	size_line("Lost by rounding", autopsy->moment.rounding_waste);
	size_line("Free but held", autopsy->moment.free_but_held);
	size_line("  largest free block", autopsy->moment.largest_free);
	size_line("  stranded on other streams", autopsy->moment.stranded_by_stream);
	size_line("  in wholly free segments", autopsy->idle);
	size_line("Reserved", autopsy->moment.reserved);
	if (autopsy->has_device_free)
		size_line("Free on the device", autopsy->device_free);
	if (answer->outside > 0)
		size_line("Outside the library", answer->outside);
}

static void
print_pins(const struct answer *answer)
{
	const struct autopsy *autopsy = &answer->autopsy;
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX], text[4 * NAME_WIDTH + 1];

	if (autopsy->pin_count == 0)
		return;
	printf("\nSegments that live blocks keep, the most free first\n");
	for (size_t i = 0; i < autopsy->pin_count; i++) {
		const struct pin *pin = &autopsy->pins[i];

		printf("  0x%-14" PRIx64 " %10s, %s free, %s\n", pin->address, units_bytes(a, pin->size),
		       units_bytes(b, pin->free), units_plural(c, pin->live_blocks, "block"));
		for (size_t j = 0; j < pin->block_count; j++) {
			char *name = answer_holder(answer->reader, pin->blocks[j].holder);

			printf("    0x%-14" PRIx64 " %8s  %s\n", pin->blocks[j].address,
			       units_bytes(a, pin->blocks[j].size),
			       report_shorten(text, sizeof text, name, NAME_WIDTH));
			free(name);
		}
	}
}

static void
print_holders(const struct answer *answer, bool by_tag)
{
	struct shares shares = shares_of(answer, by_tag);
	char bytes[UNITS_MAX], share[UNITS_MAX], text[4 * NAME_WIDTH + 1];

	printf("\nBiggest holders then, by %s\n", by_tag ? "tag" : "frame");
	for (size_t i = 0; i < shares.count && i < HOLDERS_SHOWN; i++)
		printf("  %9s  %7s  %s\n", units_bytes(bytes, shares.at[i].bytes),
		       units_percent(share, shares.at[i].bytes, answer->autopsy.moment.live_requested),
		       report_shorten(text, sizeof text, shares.at[i].name, NAME_WIDTH));
	if (shares.count > HOLDERS_SHOWN)
		printf("  and %zu more\n", shares.count - HOLDERS_SHOWN);
	shares_fini(&shares);
}

static void
print_remedies(const struct answer *answer)
{
	char size[UNITS_MAX], reserved[UNITS_MAX];

	printf("\nWhat would have helped (each replayed, and it passed)\n");
	if (answer->fits > 0)
		printf("  a capacity of %s (%" PRIu64 ")%s\n", units_bytes(size, answer->fits), answer->fits,
		       answer->claim == FIT_LEAST ? ": with one byte less it fails, and with anything less down "
						    "to what there was"
						  : ": with one byte less it fails");
	for (size_t i = 0; i < answer->remedy_count; i++)
		printf("  %s (it reserves %s)\n", answer->remedies[i].text,
		       units_bytes(reserved, answer->remedies[i].reserved));
	if (answer->capacity > 0 && !answer->reproduced)
		printf("  The replay under %s passes: what the recorded allocator ran into, the model does not "
		       "show.\n",
		       units_bytes(size, answer->capacity));
	else if (answer->remedy_count == 0 && answer->tried > 0)
		printf("  none of %zu settings and policies that were tried\n", answer->tried);
	if (answer->fits == 0 && answer->remedy_count == 0)
		printf("  no capacity was found at which it passes\n");
}

static void
print_text(const struct answer *answer)
{
	const struct autopsy *autopsy = &answer->autopsy;
	char size[UNITS_MAX], missing[UNITS_MAX], capacity[UNITS_MAX], *shown = report_clean(answer->path);

	printf("%s\n  %s, policy %s, %s\n", shown, trace_format(answer->reader), answer->policy->name,
	       autopsy->recorded ? "a failure that the trace records" : "replayed under the capacity");
	free(shown);
	if (autopsy->event == REPLAY_AT_START)
		printf("\nOut of memory before the first event: ");
	else
		printf("\nOut of memory at event %" PRIu64 ": ", autopsy->event);
	printf("%s requested", units_bytes(size, autopsy->size));
	if (answer->capacity > 0)
		printf(", %s short of %s", units_bytes(missing, answer->short_by),
		       units_bytes(capacity, answer->capacity));
	printf("\nReason: %s\n\n", answer->reason);
	print_moment(answer);
	print_pins(answer);
	print_holders(answer, false);
	print_holders(answer, true);
	print_remedies(answer);
}

/* ---- JSON --------------------------------------------------------------------------- */

static json_t *
pins_array(const struct answer *answer)
{
	json_t *array = json_array();

	for (size_t i = 0; i < answer->autopsy.pin_count; i++) {
		const struct pin *pin = &answer->autopsy.pins[i];
		json_t *object = json_object(), *blocks = json_array();

		for (size_t j = 0; j < pin->block_count; j++) {
			json_t *block = json_object();

			answer_put(block, "ptr", answer_address(pin->blocks[j].address));
			answer_put(block, "size", answer_number(pin->blocks[j].size));
			answer_put(block, "holder", answer_name(answer->reader, pin->blocks[j].holder));
			json_array_append_new(blocks, block);
		}
		answer_put(object, "segment", answer_address(pin->address));
		answer_put(object, "size", answer_number(pin->size));
		answer_put(object, "free", answer_number(pin->free));
		answer_put(object, "live_blocks", answer_number(pin->live_blocks));
		answer_put(object, "smallest_blocks", blocks);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *
shares_array(const struct answer *answer, bool by_tag)
{
	struct shares shares = shares_of(answer, by_tag);
	json_t *array = json_array();

	for (size_t i = 0; i < shares.count; i++) {
		json_t *object = json_object();

		answer_put(object, "name", json_string(shares.at[i].name));
		answer_put(object, "bytes", answer_number(shares.at[i].bytes));
		answer_put(object, "blocks", answer_number(shares.at[i].blocks));
		json_array_append_new(array, object);
	}
	shares_fini(&shares);
	return array;
}

static json_t *
remedies_array(const struct answer *answer)
{
	json_t *array = json_array();

	for (size_t i = 0; i < answer->remedy_count; i++) {
		json_t *object = json_object();

		answer_put(object, "change", json_string(answer->remedies[i].text));
		answer_put(object, "capacity", answer_number(answer->remedies[i].capacity));
		answer_put(object, "peak_reserved", answer_number(answer->remedies[i].reserved));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *
failure_object(const struct answer *answer)
{
	const struct autopsy *autopsy = &answer->autopsy;
	json_t *object = json_object();

	answer_put(object, "recorded", json_boolean(autopsy->recorded));
	answer_put(object, "event", answer_event(autopsy->event));
	answer_put(object, "requested", answer_number(autopsy->size));
	answer_put(object, "capacity", answer->capacity > 0 ? answer_number(answer->capacity) : json_null());
	answer_put(object, "short_by", answer->capacity > 0 ? answer_number(answer->short_by) : json_null());
	answer_put(object, "reason", json_string(answer->reason));
	answer_put(object, "live_requested", answer_number(autopsy->moment.live_requested));
	answer_put(object, "rounding_waste", answer_number(autopsy->moment.rounding_waste));
	answer_put(object, "free_but_held", answer_number(autopsy->moment.free_but_held));
	answer_put(object, "largest_free", answer_number(autopsy->moment.largest_free));
	answer_put(object, "stranded_by_stream", answer_number(autopsy->moment.stranded_by_stream));
	answer_put(object, "idle", answer_number(autopsy->idle));
	answer_put(object, "reserved", answer_number(autopsy->moment.reserved));
	answer_put(object, "device_free",
		   autopsy->has_device_free ? answer_number(autopsy->device_free) : json_null());
	answer_put(object, "outside", answer_number(answer->outside));
	answer_put(object, "reproduced", json_boolean(answer->reproduced));
	answer_put(object, "segments", pins_array(answer));
	answer_put(object, "holders_by_frame", shares_array(answer, false));
	answer_put(object, "holders_by_tag", shares_array(answer, true));
	answer_put(object, "passes_at", answer->fits > 0 ? answer_number(answer->fits) : json_null());
	answer_put(object, "would_have_helped", remedies_array(answer));
	return object;
}

static json_t *
answer_object(const struct answer *answer, bool truncated)
{
	json_t *object = json_object();

	answer_put(object, "trace", answer_text(answer->path));
	answer_put(object, "policy", json_string(answer->policy->name));
	answer_put(object, "truncated", json_boolean(truncated));
	answer_put(object, "oom", answer->autopsy.taken ? failure_object(answer) : json_null());
	return object;
}

/* ---- the command --------------------------------------------------------------------- */

static void
print_none(const struct answer *answer)
{
	char size[UNITS_MAX];

	if (answer->values->capacity > 0)
		printf("Nothing fails under %s, and the trace records no failure.\n",
		       units_bytes(size, answer->values->capacity));
	else
		printf("The trace records no failure; --capacity asks where it would fail.\n");
}

static int
show(struct answer *answer)
{
	bool truncated = answer_session_truncated(answer->command, answer->session);
	int status = answer->autopsy.taken || truncated ? EXIT_BAD_NEWS : EXIT_FINE;

	if (answer->values->json)
		return answer_print(answer->command, answer_object(answer, truncated), status);
	if (answer->autopsy.taken)
		print_text(answer);
	else
		print_none(answer);
	return status;
}

static int
explain(struct answer *answer)
{
	struct replay_options options = answer_options();
	enum soma_status status =
		replay_begin(answer->reader, &options, &answer->session, &answer->error);
	int end;

	answer->policy = answer_policy(answer->values->policy);
	if (status == SOMA_STATUS_OK)
		status = find_device(answer);
	if (status == SOMA_STATUS_OK)
		status = find_failure(answer);
	if (status == SOMA_STATUS_OK && answer->autopsy.taken) {
		find_reason(answer);
		status = find_remedies(answer);
	}
	end = status == SOMA_STATUS_OK
		      ? show(answer)
		      : answer_engine_error(answer->command, answer->path, status, &answer->error);
	autopsy_fini(&answer->autopsy);
	replay_end(answer->session);
	return end;
}

int
command_oom(const struct command *command, int argc, char **argv)
{
	struct oom_values values = { .device = REPLAY_DEVICE_ANY };
	struct answer answer = { .command = command, .values = &values };
	int first, status = options_parse(command, argc, argv, &values, &first);

	if (status < 0)
		status = answer_check_size(command, "capacity", values.capacity);
	if (status >= 0)
		return status;
	answer.path = answer_operand(command, argc, argv, first, &status);
	if (answer.path == NULL)
		return status;
	answer.reader = answer_open(command, answer.path);
	if (answer.reader == NULL)
		return EXIT_INPUT;
	status = explain(&answer);
	trace_close(answer.reader);
	return status;
}
