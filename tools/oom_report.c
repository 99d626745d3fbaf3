/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reports of `soma oom`: text and JSON.  Nothing is found out here.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/answer.h"
#include "tools/oom.h"
#include "tools/report/report.h"
#include "tools/units.h"

#define SEGMENTS_SHOWN 10
#define BLOCKS_SHOWN 3
#define HOLDERS_SHOWN 8
#define NAME_WIDTH 56

/* How many of so many are shown: as --limit says, or at most `most`. */
static size_t
shown_of(const struct oom *oom, size_t count, size_t most)
{
	int32_t limit = oom->values->limit;

	if (limit >= 0)
		most = limit > 0 ? (size_t)limit : SIZE_MAX;
	return count < most ? count : most;
}

/* ---- text -------------------------------------------------------------------------- */

static void
size_line(const char *label, uint64_t bytes)
{
	char size[UNITS_MAX];

	printf("  %-28s %10s\n", label, units_bytes(size, bytes));
}

static void
print_moment(const struct oom *oom)
{
	const struct autopsy *autopsy = &oom->autopsy;

	size_line("Live, as requested", autopsy->moment.live_requested);
	size_line("Lost by rounding", autopsy->moment.rounding_waste);
	size_line("Free but held", autopsy->moment.free_but_held);
	size_line("  largest free block", autopsy->moment.largest_free);
	size_line("  stranded on other streams", autopsy->moment.stranded_by_stream);
	size_line("  in wholly free segments", autopsy->idle);
	size_line("Reserved", autopsy->moment.reserved);
	if (autopsy->has_device_free)
		size_line("Free on the device", autopsy->device_free);
	if (oom->outside > 0) {
		size_line("Outside the library", oom->outside);
		size_line("The whole device", oom->values->capacity);
	}
}

static void
print_blocks(const struct oom *oom, const struct pin *pin)
{
	size_t shown = shown_of(oom, pin->block_count, BLOCKS_SHOWN);
	char size[UNITS_MAX], count[UNITS_MAX], text[4 * NAME_WIDTH + 1];
	uint64_t rest = 0;

	for (size_t i = 0; i < shown; i++) {
		char *name = answer_holder(oom->reader, pin->blocks[i].holder);

		printf("    0x%-14" PRIx64 " %8s  %s\n", pin->blocks[i].address,
		       units_bytes(size, pin->blocks[i].size),
		       report_shorten(text, sizeof text, name, NAME_WIDTH));
		free(name);
	}
	for (size_t i = shown; i < pin->block_count; i++)
		rest += pin->blocks[i].size;
	if (shown < pin->block_count)
		printf("    and %s more (%s)\n", units_count(count, pin->block_count - shown),
		       units_bytes(size, rest));
}

static void
print_pins_left(const struct autopsy *autopsy, size_t shown)
{
	uint64_t size = 0, free_bytes = 0;
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX];

	for (size_t i = shown; i < autopsy->pin_count; i++) {
		size += autopsy->pins[i].size;
		free_bytes += autopsy->pins[i].free;
	}
	if (shown < autopsy->pin_count)
		printf("  and %s more (%s, %s free)\n", units_count(c, autopsy->pin_count - shown),
		       units_bytes(a, size), units_bytes(b, free_bytes));
}

static void
print_pins(const struct oom *oom)
{
	const struct autopsy *autopsy = &oom->autopsy;
	size_t shown = shown_of(oom, autopsy->pin_count, SEGMENTS_SHOWN);
	char a[UNITS_MAX], b[UNITS_MAX], c[UNITS_MAX];

	if (autopsy->pin_count == 0)
		return;
	printf("\nSegments that live blocks keep, the most free first; %s\n",
	       autopsy->recorded_addresses ? "addresses as recorded" : "addresses in the model");
	for (size_t i = 0; i < shown; i++) {
		const struct pin *pin = &autopsy->pins[i];

		if (pin->has_address)
			printf("  0x%-14" PRIx64, pin->address);
		else
			printf("  %-16s", "(the replay's)");
		printf(" %10s, %s free, %s\n", units_bytes(a, pin->size), units_bytes(b, pin->free),
		       units_plural(c, pin->block_count, "block"));
		print_blocks(oom, pin);
	}
	print_pins_left(autopsy, shown);
}

static bool
are_equal(const struct oom_shares *a, const struct oom_shares *b)
{
	for (size_t i = 0; i < a->count && i < b->count; i++)
		if (a->at[i].bytes != b->at[i].bytes || strcmp(a->at[i].name, b->at[i].name) != 0)
			return false;
	return a->count == b->count;
}

static void
print_shares(const struct oom *oom, const struct oom_shares *shares, const char *by)
{
	size_t shown = shown_of(oom, shares->count, HOLDERS_SHOWN);
	char bytes[UNITS_MAX], share[UNITS_MAX], text[4 * NAME_WIDTH + 1];
	uint64_t rest = 0;

	if (shares->count == 0)
		return;
	printf("\nBiggest holders then%s\n", by);
	for (size_t i = 0; i < shown; i++)
		printf("  %9s  %7s  %s\n", units_bytes(bytes, shares->at[i].bytes),
		       units_percent(share, shares->at[i].bytes, oom->autopsy.moment.live_requested),
		       report_shorten(text, sizeof text, shares->at[i].name, NAME_WIDTH));
	for (size_t i = shown; i < shares->count; i++)
		rest += shares->at[i].bytes;
	if (shown < shares->count)
		printf("  and %s more (%s)\n", units_count(share, shares->count - shown), units_bytes(bytes, rest));
}

/* Twice, where frames and tags are not the same: most formats know only one of them. */
static void
print_holders(const struct oom *oom)
{
	struct oom_shares frames = oom_shares(oom, false), tags = oom_shares(oom, true);
	bool twice = !are_equal(&frames, &tags);

	print_shares(oom, &frames, twice ? ", by frame" : "");
	if (twice)
		print_shares(oom, &tags, ", by tag");
	oom_shares_fini(&frames);
	oom_shares_fini(&tags);
}

/* With all bytes where the text alone would not tell it from the other one. */
static char *
apart(char *buffer, uint64_t bytes, uint64_t other)
{
	char shown[UNITS_MAX];

	if (strcmp(units_bytes(buffer, bytes), units_bytes(shown, other)) == 0)
		units_exact(buffer, bytes);
	return buffer;
}

/* What the process would need, in terms of a device that it shares. */
static void
print_device(const struct oom *oom)
{
	char device[UNITS_MAX], less[UNITS_MAX];
	uint64_t more = oom->fits - oom->capacity;

	printf("    that is a device of %s, with as much outside the library",
	       units_bytes(device, oom->values->capacity + more));
	if (more <= oom->outside)
		printf("; or %s less outside", units_bytes(less, more));
	putchar('\n');
}

static void
print_capacity(const struct oom *oom)
{
	char size[UNITS_MAX], there[UNITS_MAX];

	printf(oom->of_process ? "  %s for this process" : "  a capacity of %s", units_exact(size, oom->fits));
	if (oom->claim != FIT_LEAST)
		printf("; with one byte less it fails\n");
	else if (oom->capacity == 0)
		printf("; with anything less it fails\n");
	else
		printf("; with anything less, down to %s, it fails\n", apart(there, oom->capacity, oom->fits));
	if (oom->outside > 0)
		print_device(oom);
}

/* The reason is that of the first failure; here nothing that is about waste would help. */
static void
print_later(const struct oom *oom)
{
	char size[UNITS_MAX];

	if (oom->later_live == 0)
		return;
	printf("Later, at event %" PRIu64 ", the trace needs %s live%s,\n"
	       "which is more than the capacity, whatever the allocator.\n",
	       oom->later_event, apart(size, oom->later_live, oom->capacity),
	       oom->later_requested ? "" : ", each block rounded up as all policies do");
}

/* Only one is explained. */
static void
print_others(const struct oom *oom)
{
	const struct replay_recorded *recorded = &oom->recorded;
	char count[UNITS_MAX], size[UNITS_MAX], text[ANSWER_RECORDED_MAX];

	if (!oom->autopsy.recorded && recorded->happened)
		printf("The trace itself tells of %s.\n", answer_recorded(text, recorded));
	else if (recorded->count > 1)
		printf("This is the first of %s failures that the trace records; the last is at event %" PRIu64
		       ": %s requested.\n",
		       units_count(count, recorded->count), recorded->last_event,
		       units_bytes(size, recorded->last_requested));
	if (oom->elsewhere > 0)
		printf("It records %s on other devices, too: --device asks for one.\n",
		       units_plural(count, oom->elsewhere, "failure"));
}

static bool
is_same_remedy(const struct oom_remedy *a, const struct oom_remedy *b)
{
	return a->capacity == b->capacity && a->reserved == b->reserved;
}

/* What to allocate from, for who does not know a policy by its name. */
static const char *
meaning_of(const char *policy)
{
	if (policy == NULL)
		return "";
	if (strcmp(policy, "pytorch") == 0)
		return ": PyTorch's caching allocator";
	return strcmp(policy, "cuda") == 0 ? ": a pool of CUDA's, as cudaMallocAsync has"
					   : ": a pool of soma's, soma_pool_create(3)";
}

/* Those that reserve as much are named behind the first of them. */
static void
print_equals(const struct oom *oom, size_t first)
{
	bool any = false;

	for (size_t i = first + 1; i < oom->remedy_count; i++) {
		if (!is_same_remedy(&oom->remedies[first], &oom->remedies[i]))
			continue;
		if (!any)
			printf("    and as much with\n");
		any = true;
		printf("      %s%s\n", oom->remedies[i].text, meaning_of(oom->remedies[i].policy));
	}
}

static void
print_settings(const struct oom *oom)
{
	char reserved[UNITS_MAX];

	for (size_t i = 0; i < oom->remedy_count; i++) {
		bool shown = false;

		for (size_t j = 0; j < i; j++)
			shown |= is_same_remedy(&oom->remedies[j], &oom->remedies[i]);
		if (shown)
			continue;
		printf("  %s%s (it reserves %s)\n", oom->remedies[i].text, meaning_of(oom->remedies[i].policy),
		       units_bytes(reserved, oom->remedies[i].reserved));
		print_equals(oom, i);
	}
}

static void
print_unexplained(const struct oom *oom)
{
	char size[UNITS_MAX];

	printf("\nWhat would have helped is not known: the replay passes in the %s that there was%s,\nso that "
	       "the model does not show what the recorded allocator ran into.\n",
	       units_bytes(size, oom->capacity), oom->of_process ? " for this process" : "");
	if (strcmp(oom->reason, "there was room") == 0)
		printf("It was another limit, such as a memory fraction; --capacity can tell it.\n");
}

static void
print_remedies(const struct oom *oom)
{
	if (oom->capacity > 0 && !oom->reproduced) {
		print_unexplained(oom);
		return;
	}
	printf("\nWhat would have helped (each replayed, and it passed)\n");
	if (oom->fits > 0)
		print_capacity(oom);
	print_settings(oom);
	if (oom->remedy_count == 0 && oom->tried > 0)
		printf("  none of %zu settings and policies that were tried\n", oom->tried);
	if (oom->fits == 0 && oom->remedy_count == 0)
		printf("  no capacity was found at which it passes\n");
}

static void
print_text(const struct oom *oom)
{
	const struct autopsy *autopsy = &oom->autopsy;
	char size[UNITS_MAX], missing[UNITS_MAX], capacity[UNITS_MAX], *shown = report_clean(oom->path);

	printf("%s\n  %s, policy %s, %s\n", shown, trace_format(oom->reader), oom->policy->name,
	       autopsy->recorded ? "a failure that the trace records" : "replayed under the capacity");
	free(shown);
	if (autopsy->event == REPLAY_AT_START)
		printf("\nOut of memory before the first event: ");
	else
		printf("\nOut of memory at event %" PRIu64 ": ", autopsy->event);
	printf("%s requested", units_bytes(size, autopsy->size));
	if (oom->capacity > 0 && oom->short_by > 0)
		printf(oom->of_process ? ", %s short in the %s that there was for this process"
				       : ", %s short of a capacity of %s",
		       units_bytes(missing, oom->short_by), units_bytes(capacity, oom->capacity));
	printf("\nReason: %s\n", oom->reason);
	print_later(oom);
	print_others(oom);
	putchar('\n');
	print_moment(oom);
	print_pins(oom);
	print_holders(oom);
	print_remedies(oom);
}

static void
print_none(const struct oom *oom)
{
	char size[UNITS_MAX];

	if (oom->values->capacity > 0)
		printf("Nothing fails under %s, and the trace records no failure.\n",
		       units_bytes(size, oom->values->capacity));
	else
		printf("The trace records no failure; --capacity asks where it would fail.\n");
}

void
oom_print(const struct oom *oom)
{
	if (oom->autopsy.taken)
		print_text(oom);
	else
		print_none(oom);
}

/* ---- JSON --------------------------------------------------------------------------- */

static json_t *
pins_array(const struct oom *oom)
{
	json_t *array = json_array();

	for (size_t i = 0; i < shown_of(oom, oom->autopsy.pin_count, SIZE_MAX); i++) {
		const struct pin *pin = &oom->autopsy.pins[i];
		json_t *object = json_object(), *blocks = json_array();

		for (size_t j = 0; j < shown_of(oom, pin->block_count, BLOCKS_SHOWN); j++) {
			json_t *block = json_object();

			report_put(block, "ptr", report_address(pin->blocks[j].address));
			report_put(block, "size", report_number(pin->blocks[j].size));
			report_put(block, "holder", answer_name(oom->reader, pin->blocks[j].holder));
			json_array_append_new(blocks, block);
		}
		report_put(object, "segment", pin->has_address ? report_address(pin->address) : json_null());
		report_put(object, "size", report_number(pin->size));
		report_put(object, "free", report_number(pin->free));
		report_put(object, "live_blocks", report_number(pin->block_count));
		report_put(object, "smallest_blocks", blocks);
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *
shares_array(const struct oom *oom, bool by_tag)
{
	struct oom_shares shares = oom_shares(oom, by_tag);
	json_t *array = json_array();

	for (size_t i = 0; i < shown_of(oom, shares.count, SIZE_MAX); i++) {
		json_t *object = json_object();

		report_put(object, "name", json_string(shares.at[i].name));
		report_put(object, "bytes", report_number(shares.at[i].bytes));
		report_put(object, "blocks", report_number(shares.at[i].blocks));
		json_array_append_new(array, object);
	}
	oom_shares_fini(&shares);
	return array;
}

static json_t *
remedies_array(const struct oom *oom)
{
	json_t *array = json_array();

	for (size_t i = 0; i < oom->remedy_count; i++) {
		json_t *object = json_object();

		report_put(object, "change", json_string(oom->remedies[i].text));
		report_put(object, "policy",
			   oom->remedies[i].policy != NULL ? json_string(oom->remedies[i].policy) : json_null());
		report_put(object, "capacity", report_number(oom->remedies[i].capacity));
		report_put(object, "peak_reserved", report_number(oom->remedies[i].reserved));
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *
later_object(const struct oom *oom)
{
	json_t *object;

	if (oom->later_live == 0)
		return json_null();
	object = json_object();
	report_put(object, "event", report_number(oom->later_event));
	report_put(object, "live_rounded", report_number(oom->later_live));
	return object;
}

static json_t *
failure_object(const struct oom *oom)
{
	const struct autopsy *autopsy = &oom->autopsy;
	json_t *object = json_object();

	report_put(object, "recorded", json_boolean(autopsy->recorded));
	report_put(object, "recorded_oom", report_recorded(&oom->recorded));
	report_put(object, "recorded_elsewhere", report_number(oom->elsewhere));
	report_put(object, "event", report_event(autopsy->event));
	report_put(object, "requested", report_number(autopsy->size));
	report_put(object, "capacity", oom->capacity > 0 ? report_number(oom->capacity) : json_null());
	report_put(object, "short_by", oom->capacity > 0 ? report_number(oom->short_by) : json_null());
	report_put(object, "reason", json_string(oom->reason));
	report_put(object, "live_requested", report_number(autopsy->moment.live_requested));
	report_put(object, "rounding_waste", report_number(autopsy->moment.rounding_waste));
	report_put(object, "free_but_held", report_number(autopsy->moment.free_but_held));
	report_put(object, "largest_free", report_number(autopsy->moment.largest_free));
	report_put(object, "stranded_by_stream", report_number(autopsy->moment.stranded_by_stream));
	report_put(object, "idle", report_number(autopsy->idle));
	report_put(object, "reserved", report_number(autopsy->moment.reserved));
	report_put(object, "device_free",
		   autopsy->has_device_free ? report_number(autopsy->device_free) : json_null());
	report_put(object, "of_process", json_boolean(oom->of_process));
	report_put(object, "outside", report_number(oom->outside));
	report_put(object, "device_size", oom->outside > 0 ? report_number(oom->values->capacity) : json_null());
	report_put(object, "reproduced", json_boolean(oom->reproduced));
	report_put(object, "addresses",
		   json_string(autopsy->recorded_addresses ? "recorded" : "model"));
	report_put(object, "segments", pins_array(oom));
	report_put(object, "holders_by_frame", shares_array(oom, false));
	report_put(object, "holders_by_tag", shares_array(oom, true));
	report_put(object, "passes_at", oom->fits > 0 ? report_number(oom->fits) : json_null());
	report_put(object, "would_have_helped", remedies_array(oom));
	report_put(object, "needs_later", later_object(oom));
	return object;
}

json_t *
oom_object(const struct oom *oom, bool truncated)
{
	json_t *object = json_object();

	report_put(object, "trace", answer_text(oom->path));
	report_put(object, "policy", json_string(oom->policy->name));
	report_put(object, "truncated", json_boolean(truncated));
	report_put(object, "oom", oom->autopsy.taken ? failure_object(oom) : json_null());
	return object;
}
