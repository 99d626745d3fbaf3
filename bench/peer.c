/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's main: one workload, one line of result: pairs, nanoseconds, peak address,
 * peak live bytes, growth of resident records.  bench/bench.c reads it.
 */
#include "bench/peer.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void
peer_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("bench peer: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

uint64_t
peer_resident(void *context)
{
	FILE *file = fopen("/proc/self/statm", "r");
	uint64_t pages = 0;

	(void)context;
	if (file == NULL || fscanf(file, "%*u %" SCNu64, &pages) != 1)
		peer_fail("cannot read /proc/self/statm");
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t
number(const char *text, const char *option)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (end == text || *end != '\0')
		peer_fail("--%s: expected a number, got \"%s\"", option, text);
	return value;
}

static void
read_ops(struct workload *work, const char *path)
{
	FILE *file = fopen(path, "rb");
	struct bench_op *ops;
	long size;

	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
		peer_fail("cannot read %s", path);
	rewind(file);
	work->op_count = (size_t)size / sizeof *ops;
	ops = malloc((size_t)size + 1);
	if (ops == NULL || fread(ops, sizeof *ops, work->op_count, file) != work->op_count)
		peer_fail("cannot read %s", path);
	fclose(file);
	work->ops = ops;
	for (size_t i = 0; i < work->op_count; i++)
		if (ops[i].slot >= work->live)
			work->live = ops[i].slot + (uint64_t)1;
}

static void
parse(int argc, char **argv, struct workload *work, struct peer_options *options)
{
	static const struct option longs[] = {
		{ "pattern", required_argument, NULL, 'p' }, { "cap", required_argument, NULL, 'c' },
		{ "live", required_argument, NULL, 'l' },    { "steps", required_argument, NULL, 'n' },
		{ "streams", required_argument, NULL, 's' }, { "sync", required_argument, NULL, 'y' },
		{ "ops", required_argument, NULL, 'o' },     { "variant", required_argument, NULL, 'v' },
		{ "track", no_argument, NULL, 't' },         { 0 },
	};
	int c, index = 0;

	while ((c = getopt_long(argc, argv, "", longs, &index)) != -1) {
		switch (c) {
		case 'p':
			work->pattern = optarg[0];
			break;
		case 'c':
			work->cap = number(optarg, longs[index].name);
			break;
		case 'l':
			work->live = number(optarg, longs[index].name);
			break;
		case 'n':
			work->steps = number(optarg, longs[index].name);
			break;
		case 's':
			work->streams = (unsigned)number(optarg, longs[index].name);
			break;
		case 'y':
			work->sync_every = (unsigned)number(optarg, longs[index].name);
			break;
		case 'o':
			read_ops(work, optarg);
			break;
		case 'v':
			options->variant = optarg;
			break;
		case 't':
			work->track = true;
			break;
		default:
			exit(2);
		}
	}
	options->streams = work->streams;
}

static void
open_peer(void *argument, struct bench_allocator *allocator)
{
	*allocator = (struct bench_allocator){ 0 };
	peer_open(argument, allocator);
}

int
main(int argc, char **argv)
{
	struct workload work = { .pattern = 'b', .cap = 32768, .live = 1000, .steps = 1000000, .streams = 1 };
	struct peer_options options = { .variant = "" };
	struct workload_result result;

	parse(argc, argv, &work, &options);
	if (work.streams == 0 || (work.streams & (work.streams - 1)) != 0 || work.live == 0)
		peer_fail("--streams must be a power of two and --live at least 1");
	workload_run(&work, open_peer, &options, &result);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", result.pairs, result.ns,
	       result.peak_address, result.peak_live, result.resident);
	return 0;
}
