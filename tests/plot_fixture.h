/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenes of traces that a test writes down.
 */
#ifndef SOMA_TESTS_PLOT_FIXTURE_H
#define SOMA_TESTS_PLOT_FIXTURE_H

#include "tests/replay_fixture.h"
#include "tools/report/picture.h"

/* Three blocks of two holders on two streams; `two` is freed. */
#define LINES                                                    \
	"1000000,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"  \
	"2000000,,alloc,0,1,0x7f0000000000,600,one,,\n"           \
	"3000000,,alloc,0,1,0x7f0000000400,900,two,,\n"           \
	"4000000,,segment_alloc,0,7,0x7f0000800000,20971520,,,\n" \
	"5000000,,alloc,0,7,0x7f0000800000,3145728,one,,\n"       \
	"6000000,,free,0,1,0x7f0000000400,,,,\n"                  \
	"9000000,,mark,0,0,,,end,,\n"

struct taken {
	char path[64];
	struct trace_reader *reader;
	struct replay_options options;
	struct replay_result result;
	struct scene scene;
	enum soma_status status;
	struct trace_error error;
};

static inline void
take_reader(struct taken *taken, enum picture_format format, enum picture_kind kind, const uint64_t *event,
	    bool all)
{
	picture_wish(&taken->scene, format, kind, event);
	taken->status = scene_take(&taken->scene, taken->reader, taken->options, all, &taken->result, &taken->error);
	ck_assert_msg(taken->status == SOMA_STATUS_OK, "%s", taken->error.text);
}

static inline void
take(struct taken *taken, const char *lines, struct replay_options options, const uint64_t *event)
{
	*taken = (struct taken){ .options = options };
	write_lines(taken->path, lines);
	trace_open(taken->path, NULL, &taken->reader, &taken->error);
	ck_assert_msg(taken->reader != NULL, "%s", taken->error.text);
	take_reader(taken, PICTURE_HTML, PICTURE_TIMELINE, event, true);
}

static inline void
take_end(struct taken *taken)
{
	replay_result_fini(&taken->result);
	scene_fini(&taken->scene);
	trace_close(taken->reader);
	if (taken->path[0] != '\0')
		unlink(taken->path);
}

static inline struct report
report_of(const struct taken *taken)
{
	return (struct report){ "dir/some.trace", taken->reader, &taken->options, &taken->result };
}

/* One block a line, each of its own size, all alive at the end. */
static inline char *
many_lines(size_t count)
{
	char *text = malloc(count * 80 + 1), *to = text;

	ck_assert_ptr_nonnull(text);
	*to = '\0';
	for (size_t i = 0; i < count; i++)
		to += sprintf(to, "%zu,,alloc,0,1,0x%zx,%zu,h%zu,,\n", i + 1, (i + 1) << 20, 512 * (i + 1), i % 20);
	return text;
}

#endif
