/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `make bench`: the harness.  It measures nothing itself: it runs the peers
 * (bench/peer.c) by the plan (bench/plan.c) and prints one table.
 */
#include "bench/measure.h"
#include "bench/report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: bench [OPTION]...   (make bench BENCH_FLAGS='OPTION...')\n"
	"Times the model and its peers and holds the figures to their targets.\n"
	"  --csv           print CSV\n"
	"  --only PATTERN  only patterns whose name begins so: a, b, \"b 64 MiB 1e5\", c, d, f ...\n"
	"  --quick         a smoke run: once, a tenth of the blocks and steps\n"
	"  --repeat N      repetitions (7)\n"
	"  --peers DIR     where the peer executables are\n"
	"  --trace FILE    the trace that pattern c repeats\n"
	"  --help          this text\n";

static unsigned
repeats_of(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (end != text && *end == '\0' && value >= 1 && value <= REPEATS_MAX)
		return (unsigned)value;
	fprintf(stderr, "bench: --repeat: expected 1 to %d, got \"%s\"\n", REPEATS_MAX, text);
	exit(2);
}

static bool
parse(int argc, char **argv, struct measure_options *options)
{
	static const struct option longs[] = {
		{ "csv", no_argument, NULL, 'c' },         { "only", required_argument, NULL, 'o' },
		{ "quick", no_argument, NULL, 'q' },       { "repeat", required_argument, NULL, 'r' },
		{ "peers", required_argument, NULL, 'p' }, { "trace", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },        { 0 },
	};
	bool csv = false;
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'c':
			csv = true;
			break;
		case 'o':
			options->only = optarg;
			break;
		case 'q':
			options->quick = true;
			break;
		case 'r':
			options->repeats = repeats_of(optarg);
			break;
		case 'p':
			options->peers = optarg;
			break;
		case 't':
			options->trace = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "bench: unexpected \"%s\"\n%s", argv[optind], usage);
		exit(2);
	}
	if (options->quick)
		options->repeats = 1;
	return csv;
}

static bool
anything_measured(const struct measured *measured)
{
	for (unsigned where = 0; where < SCENARIO_COUNT; where++)
		for (unsigned who = 0; who < CONTENDER_COUNT; who++)
			if (measured->at[where][who].count > 0)
				return true;
	return false;
}

int
main(int argc, char **argv)
{
	static struct measured measured;
	struct measure_options options = { .peers = "bench", .repeats = 7 };
	bool csv = parse(argc, argv, &options);

	if (!measure_plan(&options, &measured))
		return 1;
	if (!anything_measured(&measured)) {
		fprintf(stderr,
			"bench: nothing to measure: no pattern begins with \"%s\", or no peer is built\n",
			options.only != NULL ? options.only : "");
		return 1;
	}
	if (csv)
		report_csv(&options, &measured);
	else
		report_text(&options, &measured);
	return 0;
}
