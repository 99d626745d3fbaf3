/* SPDX-License-Identifier: Apache-2.0 */
/* Printing; the arithmetic of the verdicts is judge(). */
#include "config.h"

#include "bench/report.h"

#include <stdio.h>
#include <string.h>

struct verdict {
	double subject;   /* ns, ratio or bytes */
	double reference; /* the same of the reference; 0: none */
	double value;     /* what is held against the limit */
	const char *text; /* "pass", "MISS", "not judged"; NULL: not measured */
};

static struct verdict
judge(const struct measure_options *options, const struct measured *measured, const struct target *target)
{
	const struct figures *subject = &measured->at[target->scenario][target->subject];
	const struct figures *reference = &measured->at[target->scenario][target->reference];
	struct verdict verdict = { 0 };

	if (subject->count == 0 || (target->kind != TARGET_METADATA && reference->count == 0))
		return verdict;
	switch (target->kind) {
	case TARGET_TIME:
		verdict.subject = figures_median(subject);
		verdict.reference = figures_median(reference);
		verdict.value = verdict.subject / verdict.reference;
		break;
	case TARGET_FRAGMENTATION:
		verdict.subject = subject->peak_ratio;
		verdict.reference = reference->peak_ratio;
		verdict.value = verdict.subject - verdict.reference;
		break;
	case TARGET_METADATA:
		verdict.subject = subject->bytes_per_block;
		verdict.value = verdict.subject;
		break;
	}
	verdict.text = verdict.value <= target->limit ? "pass" : "MISS";
	if (options->quick)
		verdict.text = "not judged";
	return verdict;
}

/* What was not measured is said, unless it was not asked for. */
static bool
is_shown(const struct measure_options *options, const struct verdict *verdict)
{
	return verdict->text != NULL || options->only == NULL;
}

static void
cpu_name(char *name, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(name, size, "unknown processor");
	if (file == NULL)
		return;
	while (fgets(line, sizeof line, file) != NULL) {
		if (strncmp(line, "model name", 10) != 0 || strchr(line, ':') == NULL)
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(name, size, "%s", strchr(line, ':') + 2);
		break;
	}
	fclose(file);
}

static void
print_head(const struct measure_options *options)
{
	char cpu[256];

	cpu_name(cpu, sizeof cpu);
	printf("%s; thread CPU time, median of %u fresh %s, contenders taking turns.\n", cpu,
	       options->repeats, options->repeats == 1 ? "process" : "processes");
	printf("Sizes are log-uniform multiples of 256 B below the cap; blocks are never touched.\n"
	       "The loop's own cost is shown and not subtracted.  One pair is two operations.\n");
#if !defined(__OPTIMIZE__) || defined(SOMA_SANITIZERS)
	printf("Built without optimisation or with a sanitizer: these figures mean nothing.\n");
#endif
	if (options->quick)
		printf("Quick: a tenth of the blocks and steps: these figures mean nothing.\n");
}

static void
print_figures(const struct scenario *scenario, const struct contender *contender, const struct figures *f)
{
	double median = figures_median(f);

	if (scenario->track) {
		printf("%-19s %-25s %8s %8s %8s %9s %8s %8.4f\n", scenario->text, contender->text, "", "", "",
		       "", "", f->peak_ratio);
		return;
	}
	printf("%-19s %-25s %8.1f %8.1f %8.1f %9.2f", scenario->text, contender->text, median, f->ns[0],
	       f->ns[f->count - 1], 2e3 / median);
	if (f->bytes_per_block > 0)
		printf(" %8.1f", f->bytes_per_block);
	printf("\n");
}

static void
print_target(const struct target *target, const struct verdict *v)
{
	const char *where = scenarios[target->scenario].text, *who = contenders[target->subject].text;

	if (v->text == NULL) {
		printf("%-19s %-25s %10s %-15s not measured\n", where, who, "", target->unit);
		return;
	}
	switch (target->kind) {
	case TARGET_TIME:
		printf("%-19s %-25s %10.2f %-15s %8.3f   %s (%.1f of %.1f ns)\n", where, who, target->limit,
		       target->unit, v->value, v->text, v->subject, v->reference);
		break;
	case TARGET_FRAGMENTATION:
		printf("%-19s %-25s %+10.3f %-15s %+8.4f   %s (%.4f, %.4f)\n", where, who, target->limit,
		       target->unit, v->value, v->text, v->subject, v->reference);
		break;
	case TARGET_METADATA:
		printf("%-19s %-25s %10.0f %-15s %8.1f   %s\n", where, who, target->limit, target->unit,
		       v->value, v->text);
		break;
	}
}

void
report_text(const struct measure_options *options, const struct measured *measured)
{
	print_head(options);
	printf("\n%-19s %-25s %8s %8s %8s %9s %8s %8s\n", "pattern", "allocator", "ns/pair", "min", "max",
	       "Mops/s", "B/block", "peak");
	for (unsigned where = 0; where < SCENARIO_COUNT; where++)
		for (unsigned who = 0; who < CONTENDER_COUNT; who++)
			if (measured->at[where][who].count > 0)
				print_figures(&scenarios[where], &contenders[who], &measured->at[where][who]);
	printf("\nB/block: resident bytes of records per live block.  peak: peak address over peak live "
	       "bytes.\n"
	       "J: jemalloc's malloc and free.  T: an ordered-set best fit.\n"
	       "\n%-19s %-25s %10s %-15s %8s\n",
	       "target", "allocator", "at most", "of", "measured");
	for (unsigned i = 0; i < target_count; i++) {
		struct verdict verdict = judge(options, measured, &targets[i]);

		if (is_shown(options, &verdict))
			print_target(&targets[i], &verdict);
	}
	for (size_t i = 0; i < measured->left_out_count; i++)
		printf("left out: %s\n", measured->left_out[i]);
}

static void
csv_measure(const struct scenario *scenario, const struct contender *contender, const struct figures *f)
{
	double median = figures_median(f);

	printf("measure,%s,\"%s\",", scenario->text, contender->text);
	if (scenario->track)
		printf(",,,,,%.6f", f->peak_ratio);
	else if (f->bytes_per_block > 0)
		printf("%.2f,%.2f,%.2f,%.0f,%.2f,", median, f->ns[0], f->ns[f->count - 1], 2e9 / median,
		       f->bytes_per_block);
	else
		printf("%.2f,%.2f,%.2f,%.0f,,", median, f->ns[0], f->ns[f->count - 1], 2e9 / median);
	printf(",,,,\n");
}

void
report_csv(const struct measure_options *options, const struct measured *measured)
{
	printf("row,pattern,allocator,ns_per_pair,ns_min,ns_max,operations_per_second,bytes_per_block,peak_"
	       "ratio,"
	       "limit,of,measured,verdict\n");
	for (unsigned where = 0; where < SCENARIO_COUNT; where++)
		for (unsigned who = 0; who < CONTENDER_COUNT; who++)
			if (measured->at[where][who].count > 0)
				csv_measure(&scenarios[where], &contenders[who], &measured->at[where][who]);
	for (unsigned i = 0; i < target_count; i++) {
		struct verdict verdict = judge(options, measured, &targets[i]);

		if (!is_shown(options, &verdict))
			continue;
		printf("target,%s,\"%s\",,,,,,,%g,%s,", scenarios[targets[i].scenario].text,
		       contenders[targets[i].subject].text, targets[i].limit, targets[i].unit);
		if (verdict.text != NULL)
			printf("%.6f,%s\n", verdict.value, verdict.text);
		else
			printf(",not measured\n");
	}
}
