/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A soma trace of any length, for measuring how fast traces are read and replayed:
 *
 *   bench/make-trace EVENTS > FILE
 *
 * Up to 50,000 blocks of 1 byte to 1 MiB are live, on four streams, made by some thousands
 * of holders.  The same number gives the same trace.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 50000
#define BLOCKS_FIRST 20000

struct block {
	uint64_t address, size;
	unsigned stream;
};

static uint64_t
next_random(void)
{
	static uint64_t state = 12345;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 33;
}

static struct block
make_block(void)
{
	static uint64_t next = (uint64_t)1 << 44;
	struct block block = { .address = next,
			       .size = 1 + next_random() % (UINT64_C(1) << (8 + next_random() % 13)),
			       .stream = (unsigned)(next_random() % 4) };

	next += (block.size + 511) / 512 * 512;
	return block;
}

int
main(int argc, char **argv)
{
	static struct block blocks[BLOCKS];
	uint64_t events = argc == 2 ? strtoull(argv[1], NULL, 10) : 0, time = 0, live = 0;

	if (events == 0) {
		fputs("usage: make-trace EVENTS > FILE\n", stderr);
		return 2;
	}
	puts("time,thread,op,device,stream,ptr,size,tag,generation,detail");
	for (uint64_t i = 0; i < events; i++) {
		time += 100 + next_random() % 2000;
		if (live < BLOCKS && (live < BLOCKS_FIRST || next_random() % 2 == 0)) {
			struct block block = blocks[live++] = make_block();

			printf("%" PRIu64 ",1,alloc,0,%u,0x%" PRIx64 ",%" PRIu64 ",layer%" PRIu64
			       ".forward (model.py:%" PRIu64 "),,\n",
			       time, block.stream, block.address, block.size, next_random() % 200,
			       next_random() % 50);
		} else {
			struct block *block = &blocks[next_random() % live];

			printf("%" PRIu64 ",1,free,0,%u,0x%" PRIx64 ",%" PRIu64 ",,,\n", time, block->stream,
			       block->address, block->size);
			*block = blocks[--live];
		}
	}
	return ferror(stdout) != 0;
}
