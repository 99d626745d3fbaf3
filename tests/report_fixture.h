/* SPDX-License-Identifier: Apache-2.0 */
/* The reports of a replay: the object, the text, and the picture of the timeline. */
#ifndef SOMA_TESTS_REPORT_FIXTURE_H
#define SOMA_TESTS_REPORT_FIXTURE_H

#include <jansson.h>

#include "tests/replay_fixture.h"
#include "tools/report/picture.h"

/* Two blocks in a recorded segment, one of them freed. */
#define SEGMENTS                                                          \
	"1000000,,segment_alloc,0,1,0x7f0000000000,2097152,,,\n"          \
	"2000000,,alloc,0,1,0x7f0000000000,600,\"layer \"\"one\"\"\",,\n" \
	"3000000,,alloc,0,1,0x7f0000000400,900,two,,\n"                   \
	"4000000,,free,0,1,0x7f0000000000,,,,\n"

static inline struct report
report_of(const struct replayed *replayed)
{
	return (struct report){ "dir/some.trace", replayed->reader, &replayed->options, &replayed->result };
}

static inline json_t *
json_of(const struct replayed *replayed)
{
	struct report report = report_of(replayed);
	FILE *file = tmpfile();
	json_error_t error;
	json_t *object;

	ck_assert_ptr_nonnull(file);
	ck_assert(report_json(file, &report));
	rewind(file);
	object = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(object != NULL, "%s", error.text);
	fclose(file);
	return object;
}

static inline char *
text_of(const struct replayed *replayed)
{
	struct report report = report_of(replayed);
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(file);
	report_text(file, &report);
	fclose(file);
	return text;
}

/* Draws the timeline; NULL, or what went wrong. */
static inline const char *
draw(const struct replayed *replayed, const char *path)
{
	struct report report = report_of(replayed);
	struct scene scene = { .columns = 0 };
	struct picture picture = { .report = &report, .scene = &scene };
	struct replay_result result;
	struct trace_error error;
	const char *problem;

	ck_assert_int_eq(trace_rewind(replayed->reader, &error), TRACE_OK);
	picture_wish(&scene, PICTURE_SVG, PICTURE_TIMELINE, NULL);
	ck_assert_int_eq(scene_take(&scene, replayed->reader, replayed->options, false, &result, &error),
			 SOMA_STATUS_OK);
	problem = picture_write(path, &picture);
	replay_result_fini(&result);
	scene_fini(&scene);
	return problem;
}

#endif
