/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures: what a scene keeps of a replay, and the data of a page.
 */
#include <jansson.h>

#include "tests/plot_fixture.h"
#include "tools/report/addresses.h"

static json_t *
json_of(const struct taken *taken, const struct report *report, enum scene_when when)
{
	struct picture picture = { .report = report, .scene = &taken->scene, .when = when };
	FILE *file = tmpfile();
	json_error_t error;
	json_t *object;
	int c;

	ck_assert_ptr_nonnull(file);
	ck_assert(picture_json(file, &picture));
	rewind(file);
	while ((c = getc(file)) != EOF)
		ck_assert_msg(c != '<' && c != '>' && c != '&' && c < 127, "'%c' in the data", c);
	rewind(file);
	object = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
	ck_assert_msg(object != NULL, "%s", error.text);
	fclose(file);
	return object;
}

/* "a.b.2.c" of an object. */
static const json_t *
at(const json_t *value, const char *path)
{
	char words[128], *rest = words;

	snprintf(words, sizeof words, "%s", path);
	for (char *word; value != NULL && (word = strsep(&rest, ".")) != NULL;)
		value = json_is_array(value) ? json_array_get(value, (size_t)atoi(word))
					     : json_object_get(value, word);
	ck_assert_msg(value != NULL, "no %s", path);
	return value;
}

static int64_t
integer(const json_t *object, const char *path)
{
	ck_assert_msg(json_is_integer(at(object, path)), "%s is no integer", path);
	return json_integer_value(at(object, path));
}

static const char *
string(const json_t *object, const char *path)
{
	ck_assert_msg(json_is_string(at(object, path)), "%s is no string", path);
	return json_string_value(at(object, path));
}

/* ---- scenes ------------------------------------------------------------------- */

START_TEST(every_block_has_its_place_and_lifetime)
{
	static const struct scene_block expected[] = {
		{ .ptr = 0x7f0000000000, .size = 600, .x0 = 1000000, .x1 = SCENE_AT_END, .event = 1,
		  .freed = SCENE_AT_END },
		{ .ptr = 0x7f0000000400, .size = 900, .x0 = 2000000, .x1 = 5000000, .event = 2, .freed = 5 },
		{ .ptr = 0x7f0000800000, .size = 3 * MIB, .x0 = 4000000, .x1 = SCENE_AT_END, .event = 4,
		  .freed = SCENE_AT_END },
	};
	struct taken taken;

	take(&taken, LINES, options_for(NULL), NULL);
	ck_assert_uint_eq(taken.scene.blocks.count, 3);
	ck_assert_uint_eq(taken.scene.blocks.seen, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct scene_block *block = &taken.scene.blocks.at[i];

		ck_assert_uint_eq(block->ptr, expected[i].ptr);
		ck_assert_uint_eq(block->size, expected[i].size);
		ck_assert_uint_eq(block->x0, expected[i].x0);
		ck_assert_uint_eq(block->x1, expected[i].x1);
		ck_assert_uint_eq(block->event, expected[i].event);
		ck_assert_uint_eq(block->freed, expected[i].freed);
	}
	ck_assert_double_eq(taken.scene.blocks.area, taken.scene.blocks.seen_area);
	ck_assert_double_eq(taken.scene.blocks.area,
			    600. * 7000001 + 900. * 3000001 + 3. * (double)MIB * 4000001);
	take_end(&taken);
}
END_TEST

START_TEST(layers_are_by_holder_stream_or_pool)
{
	static const char *const names[][2] = { { "one", "two" }, { "stream 7", "stream 1" },
						{ "large blocks", "small blocks" } };
	static const uint64_t bytes[][2] = { { 3 * MIB + 600, 900 }, { 3 * MIB, 1500 }, { 3 * MIB, 1500 } };
	struct taken taken;

	take(&taken, LINES, options_for(NULL), NULL);
	for (int by = SCENE_STREAM; by < SCENE_BY_COUNT; by++) {
		const struct layers *layers = &taken.scene.layers[by];

		ck_assert_uint_eq(layers->count, 2);
		for (size_t i = 0; i < 2; i++) {
			ck_assert_str_eq(layers->at[i].name, names[by][i]);
			ck_assert_uint_eq(layers->at[i].bytes, bytes[by][i]);
		}
	}
	/* A holder of next to nothing has no layer. */
	ck_assert_uint_eq(taken.scene.layers[SCENE_HOLDER].count, 1);
	ck_assert_str_eq(taken.scene.layers[SCENE_HOLDER].at[0].name, "one");
	ck_assert_uint_eq(taken.scene.layers[SCENE_HOLDER].at[0].bytes, bytes[SCENE_HOLDER][0]);
	take_end(&taken);
}
END_TEST

static uint64_t
highest_live(const struct series *series)
{
	uint64_t most = 0;

	for (size_t i = 0; i < series->column_count; i++)
		most = series->columns[i].live > most ? series->columns[i].live : most;
	return most;
}

START_TEST(columns_keep_the_peak_and_layers_add_up_to_it)
{
	struct taken taken;

	take(&taken, LINES, options_for(NULL), NULL);
	for (int by = 0; by < SCENE_BY_COUNT; by++) {
		const struct series *series = &taken.scene.series[by];
		const struct series_column *last = &series->columns[series->column_count - 1];
		uint64_t sum = 0;

		ck_assert_uint_eq(highest_live(series), taken.result.peak_live_requested);
		ck_assert_uint_eq(last->live, 3 * MIB + 600);
		ck_assert_uint_eq(last->reserved, 22 * MIB);
		for (size_t i = 0; i < series->layer_count; i++)
			sum += last->layer[i];
		ck_assert_uint_eq(sum, last->live);
		ck_assert_uint_eq(series->columns[0].live, 0);
	}
	take_end(&taken);
}
END_TEST

static void
check_map(const struct scene_map *map, uint64_t event, uint64_t live, uint64_t blocks)
{
	uint64_t reserved = 0;

	ck_assert(map->taken);
	ck_assert_uint_eq(map->event, event);
	ck_assert_uint_eq(map->live, live);
	ck_assert_uint_eq(map->blocks, blocks);
	for (size_t i = 0; i < map->segment_count; i++) {
		const struct scene_segment *segment = &map->segments[i];
		uint64_t address = segment->address;

		for (size_t j = segment->first; j < segment->first + segment->count; j++) {
			ck_assert_uint_eq(map->extents[j].address, address);
			address += map->extents[j].size;
		}
		ck_assert_uint_eq(address, segment->address + segment->size);
		reserved += segment->size;
	}
	ck_assert_uint_eq(reserved, map->reserved);
}

START_TEST(maps_cover_what_is_reserved_at_their_moment)
{
	struct taken taken;
	const struct scene_map *maps = taken.scene.maps;
	uint64_t event = 2;

	take(&taken, LINES, options_for(NULL), &event);
	check_map(&maps[SCENE_PEAK], 4, 3 * MIB + 1500, 3);
	check_map(&maps[SCENE_EVENT], 2, 1500, 2);
	check_map(&maps[SCENE_END], 6, 3 * MIB + 600, 2);
	ck_assert(!maps[SCENE_OOM].taken);
	ck_assert_uint_eq(maps[SCENE_EVENT].segment_count, 1);
	ck_assert_uint_eq(maps[SCENE_END].segment_count, 2);
	ck_assert_uint_eq(maps[SCENE_END].segments[1].stream, 7);
	/* What is freed later is known by then. */
	ck_assert_uint_eq(maps[SCENE_EVENT].extents[1].block.x1, 5000000);
	ck_assert_uint_eq(maps[SCENE_EVENT].extents[1].block.freed, 5);
	take_end(&taken);
}
END_TEST

START_TEST(the_map_of_a_failure_is_taken_where_it_happened)
{
	struct replay_options options = options_for("strict");
	struct taken taken;

	options.capacity = 2 * MIB;
	take(&taken, "1,,alloc,0,1,0x1000,1048576,a,,\n2,,alloc,0,1,0x900000,8388608,b,,\n3,,free,0,1,0x1000,,,,\n",
	     options, NULL);
	ck_assert(taken.result.oom.happened);
	check_map(&taken.scene.maps[SCENE_OOM], 1, MIB, 1);
	ck_assert_uint_eq(taken.scene.sizes.blocks, 1);
	take_end(&taken);
}
END_TEST

START_TEST(the_map_of_a_recorded_failure_is_taken_where_it_was)
{
	static const char lines[] = "1,,alloc,0,1,0x1000,1048576,a,,\n2,,oom,0,1,,0,,,\n3,,oom,0,1,,8388608,,,1\n"
				    "4,,free,0,1,0x1000,,,,\n5,,alloc,0,1,0x900000,4194304,b,,\n"
				    "6,,alloc_failed,0,1,,512,,,\n";
	struct replay_options options = options_for("strict");
	struct taken taken;
	const struct scene_map *map = &taken.scene.maps[SCENE_OOM];

	take(&taken, lines, options, NULL);
	ck_assert(!taken.result.oom.happened);
	check_map(map, 2, MIB, 1);
	take_end(&taken);
	/* The first failure, the recording's or the replay's: under a capacity what failed is tried here, too. */
	options.capacity = 9 * MIB;
	take(&taken, lines, options, NULL);
	ck_assert(!taken.result.oom.happened);
	ck_assert_uint_eq(map->event, 2);
	take_end(&taken);
	options.capacity = 9 * MIB - 1;
	take(&taken, lines, options, NULL);
	ck_assert(taken.result.oom.happened);
	ck_assert_uint_eq(taken.result.oom.event, 2);
	ck_assert_uint_eq(map->event, 2);
	take_end(&taken);
	options.capacity = 512;
	take(&taken, lines, options, NULL);
	ck_assert_uint_eq(taken.result.oom.event, 0);
	ck_assert_uint_eq(map->event, 0);
	take_end(&taken);
}
END_TEST

/* The moment of a map is not the peak: who holds how much is that of the moment. */
START_TEST(a_recorded_failure_is_marked_and_its_map_has_its_own_shares)
{
	static const char lines[] = "1,,alloc,0,1,0x1000,1048576,a,,\n2,,oom,0,1,,8388608,,,1\n"
				    "3,,alloc,0,1,0x900000,3145728,b,,\n";
	struct picture_failure failure;
	uint64_t held[SERIES_LAYERS];
	struct report report;
	struct taken taken;
	json_t *data;

	take(&taken, lines, options_for("strict"), NULL);
	report = report_of(&taken);
	struct picture picture = { .report = &report, .scene = &taken.scene, .kind = PICTURE_MAP, .when = SCENE_OOM };
	ck_assert(picture_failure(&picture, &failure));
	ck_assert(failure.recorded);
	ck_assert_uint_eq(failure.x, taken.scene.maps[SCENE_OOM].x);
	ck_assert_uint_eq(failure.event, 1);
	ck_assert_uint_eq(failure.requested, 8 * MIB);
	ck_assert_str_eq(taken.scene.layers[SCENE_HOLDER].at[0].name, "b");
	ck_assert_uint_eq(picture_held(&picture, held), MIB);
	ck_assert_uint_eq(held[0], 0);
	ck_assert_uint_eq(held[1], MIB);
	picture.when = SCENE_PEAK;
	ck_assert_uint_eq(picture_held(&picture, held), 4 * MIB);
	ck_assert_uint_eq(held[0], 3 * MIB);
	data = json_of(&taken, &report, SCENE_OOM);
	ck_assert_str_eq(string(data, "oom.reason"), "recorded");
	ck_assert_int_eq(integer(data, "oom.requested"), 8 * MIB);
	json_decref(data);
	take_end(&taken);
}
END_TEST

START_TEST(the_histogram_adds_up_to_the_blocks)
{
	struct taken taken;
	const struct scene_sizes *sizes = &taken.scene.sizes;
	uint64_t count = 0, bytes = 0;

	take(&taken, LINES, options_for(NULL), NULL);
	ck_assert_uint_eq(sizes->count[9], 2);
	ck_assert_uint_eq(sizes->count[21], 1);
	for (int i = 0; i < SCENE_SIZES; i++) {
		count += sizes->count[i];
		bytes += sizes->bytes[i];
		for (int by = 0; by < SCENE_BY_COUNT; by++) {
			uint64_t of_layers = 0;

			for (size_t layer = 0; layer <= LAYER_OTHER; layer++)
				of_layers += sizes->layer_count[by][layer][i];
			ck_assert_uint_eq(of_layers, sizes->count[i]);
		}
	}
	ck_assert_uint_eq(count, taken.result.counts.allocs);
	ck_assert_uint_eq(count, sizes->blocks);
	ck_assert_uint_eq(bytes, 600 + 900 + 3 * MIB);
	ck_assert_uint_eq(scene_bucket(1), 0);
	ck_assert_uint_eq(scene_bucket(511), 8);
	ck_assert_uint_eq(scene_bucket(512), 9);
	ck_assert_uint_eq(scene_bucket(UINT64_MAX), 63);
	take_end(&taken);
}
END_TEST

START_TEST(addresses_leave_out_what_was_never_used)
{
	struct taken taken;
	struct addresses addresses;

	take(&taken, LINES, options_for(NULL), NULL);
	addresses_make(&addresses, &taken.scene);
	ck_assert_uint_eq(addresses.count, 2);
	ck_assert_double_eq(addresses_at(&addresses, 0x7f0000000000), 0);
	ck_assert_double_eq(addresses_at(&addresses, 0x7f0000000400), 0x400);
	ck_assert_double_eq(addresses_at(&addresses, 0x7f0000800000 + 20 * MIB), addresses.length);
	ck_assert_double_gt(addresses.length, 22 * MIB);
	ck_assert_double_lt(addresses.length, 23 * MIB);
	/* What is in a gap is where the gap begins. */
	ck_assert_double_eq(addresses_at(&addresses, 0x7f0000700000), 2 * MIB);
	ck_assert_double_eq(addresses_at(&addresses, 0), 0);
	addresses_fini(&addresses);
	take_end(&taken);
}
END_TEST

START_TEST(what_is_left_out_is_the_smallest_and_is_counted)
{
	char *lines = many_lines(1000);
	struct taken taken = { .options = options_for("cuda") };
	double area = 0;
	struct scene_map *map;

	write_lines(taken.path, lines);
	trace_open(taken.path, NULL, &taken.reader, &taken.error);
	picture_wish(&taken.scene, PICTURE_HTML, PICTURE_MEMORY, NULL);
	taken.scene.blocks_max = 100;
	taken.scene.extents_max = 50;
	taken.status =
		scene_take(&taken.scene, taken.reader, taken.options, true, &taken.result, &taken.error);
	ck_assert_int_eq(taken.status, SOMA_STATUS_OK);
	ck_assert_uint_eq(taken.scene.blocks.count, 100);
	ck_assert_uint_eq(taken.scene.blocks.seen, 1000);
	for (size_t i = 0; i < 1000; i++)
		area += 512. * (double)(i + 1) * (double)(999 - i + 1);
	ck_assert_double_eq(taken.scene.blocks.seen_area, area);
	/* Bytes times time is most in the middle. */
	ck_assert_uint_ge(taken.scene.blocks.at[0].size, 512 * 400);
	ck_assert_uint_le(taken.scene.blocks.at[99].size, 512 * 600);
	map = &taken.scene.maps[SCENE_END];
	ck_assert_uint_le(map->extent_count, 50);
	ck_assert_uint_eq(map->blocks, 1000);
	check_map(map, 999, 512ull * 1000 * 1001 / 2, 1000);
	ck_assert_uint_gt(map->merged, 900);
	take_end(&taken);
	free(lines);
}
END_TEST

/* ---- the data of a page ---------------------------------------------------------- */

START_TEST(the_data_has_the_scene)
{
	struct taken taken;
	struct report report;
	json_t *data;
	uint64_t event = 2;

	take(&taken, LINES, options_for(NULL), &event);
	report = report_of(&taken);
	data = json_of(&taken, &report, SCENE_EVENT);
	ck_assert_str_eq(string(data, "title"), "some.trace");
	ck_assert(json_is_true(at(data, "axis.time")));
	ck_assert(json_is_true(at(data, "axis.clock")));
	ck_assert_int_eq(integer(data, "axis.span"), 8000000);
	ck_assert_int_eq(integer(data, "peak.live"), 3 * MIB + 1500);
	ck_assert_int_eq(integer(data, "peak.reserved"), 22 * MIB);
	ck_assert(json_is_null(at(data, "oom")));
	ck_assert_uint_eq(json_array_size(at(data, "series.live")), taken.scene.columns);
	ck_assert_uint_eq(json_array_size(at(data, "series.holder.0")), taken.scene.columns);
	ck_assert_int_eq(integer(data, "blocks.ptr.1"), 0x7f0000000400);
	ck_assert_int_eq(integer(data, "blocks.x1.1"), 5000000);
	ck_assert_int_eq(integer(data, "blocks.x1.2"), -1);
	ck_assert_int_eq(integer(data, "blocks.freed.2"), -1);
	ck_assert_str_eq(string(at(data, "names.holder"), "1"), "two");
	ck_assert_int_eq(integer(data, "blocks.holder.1"), 1);
	ck_assert_int_eq(integer(data, "layers.stream.0.bytes"), 3 * MIB);
	ck_assert_uint_eq(json_array_size(at(data, "maps")), 3);
	ck_assert_str_eq(string(data, "maps.0.name"), "at the peak, event 4");
	ck_assert_str_eq(string(data, "maps.1.name"), "at event 2");
	ck_assert_int_eq(integer(data, "when"), 1);
	ck_assert_int_eq(integer(data, "maps.1.extents.kind.2"), EXTENT_FREE);
	ck_assert_int_eq(integer(data, "maps.1.extents.holder.2"), -1);
	ck_assert_int_eq(integer(data, "sizes.first"), 9);
	ck_assert_int_eq(integer(data, "sizes.count.0"), 2);
	ck_assert_int_eq(integer(data, "sizes.count.12"), 1);
	ck_assert_str_eq(string(data, "notes.memory"), "all 3 blocks");
	json_decref(data);
	take_end(&taken);
}
END_TEST

START_TEST(hostile_names_stay_names)
{
	static const char *const names[] = {
		"</script><script>window.pwned=1</script>", "<!--", "<img src=x onerror=alert(1)>", "a&lt;b",
		"\\u003c\\", "{\"\"}", "]]>", "@DATA@",
	};
	char lines[2000] = "", *to = lines;
	struct taken taken;
	struct report report;
	json_t *data;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		to += sprintf(to, "%zu,,alloc,0,1,0x%zx,4096,\"%s\",,\n", i + 1, (i + 1) << 20, names[i]);
	take(&taken, lines, options_for("cuda"), NULL);
	report = report_of(&taken);
	data = json_of(&taken, &report, SCENE_PEAK);
	ck_assert_uint_eq(json_array_size(at(data, "names.holder")), sizeof names / sizeof names[0]);
	for (size_t i = 0; i < 5; i++)
		ck_assert_str_eq(json_string_value(json_array_get(at(data, "names.holder"), i)), names[i]);
	json_decref(data);
	take_end(&taken);
}
END_TEST

UNIT_MAIN("plot", every_block_has_its_place_and_lifetime, layers_are_by_holder_stream_or_pool,
	  columns_keep_the_peak_and_layers_add_up_to_it, maps_cover_what_is_reserved_at_their_moment,
	  the_map_of_a_failure_is_taken_where_it_happened,
	  the_map_of_a_recorded_failure_is_taken_where_it_was,
	  a_recorded_failure_is_marked_and_its_map_has_its_own_shares, the_histogram_adds_up_to_the_blocks,
	  addresses_leave_out_what_was_never_used, what_is_left_out_is_the_smallest_and_is_counted,
	  the_data_has_the_scene, hostile_names_stay_names)
