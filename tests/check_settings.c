/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's settings: how they are read, what they round, and what they do to placement.
 */
#include "tests/replay_fixture.h"
#include "tools/engine/settings.h"

static struct settings
parsed(const char *text)
{
	struct settings settings;
	char buffer[512];
	const char *problem = settings_parse(text, &settings, buffer, sizeof buffer);

	ck_assert_msg(problem == NULL, "%s", problem);
	return settings;
}

static void
check_refused(const char *text, const char *part)
{
	struct settings settings;
	char buffer[512];
	const char *problem = settings_parse(text, &settings, buffer, sizeof buffer);

	ck_assert_msg(problem != NULL, "%s is taken", text);
	ck_assert_msg(strstr(problem, part) != NULL, "%s: %s", text, problem);
}

START_TEST(settings_are_read_as_pytorch_reads_them)
{
	struct settings settings =
		parsed("max_split_size_mb=128,garbage_collection_threshold=0.8,capacity=24G,"
		       "max_non_split_rounding_mb=64,expandable_segments=False");

	ck_assert_uint_eq(settings.max_split, 128 * MIB);
	ck_assert_uint_eq(settings.non_split_slack, 64 * MIB);
	ck_assert_double_eq(settings.collect_threshold, 0.8);
	ck_assert_uint_eq(settings.capacity, 24 * 1024 * MIB);
	ck_assert(!settings.rounds);
	ck_assert_uint_eq(parsed("max_split_size_mb=21").non_split_slack, 20 * MIB);
}
END_TEST

START_TEST(a_colon_stands_for_an_equals_sign_as_in_the_variable)
{
	struct settings settings = parsed("max_split_size_mb:128,roundup_power2_divisions:[256:1,>:8],"
					  "expandable_segments:True,capacity=1G");

	ck_assert_uint_eq(settings.max_split, 128 * MIB);
	ck_assert_uint_eq(settings.divisions[8], 1);
	ck_assert_uint_eq(settings.divisions[9], 8);
	ck_assert(settings.expandable);
	ck_assert_uint_eq(settings.capacity, 1024 * MIB);
	check_refused("max_split_size_mb:20", "max_split_size_mb: expected a number of MB above 20, got '20'");
}
END_TEST

START_TEST(a_list_of_divisions_is_by_size)
{
	struct settings settings = parsed("roundup_power2_divisions=[256:1,512:2,1024:4,>:8]");

	for (unsigned i = 0; i <= 8; i++)
		ck_assert_uint_eq(settings.divisions[i], 1);
	ck_assert_uint_eq(settings.divisions[9], 2);
	ck_assert_uint_eq(settings.divisions[10], 4);
	for (unsigned i = 11; i < SETTINGS_INTERVALS; i++)
		ck_assert_uint_eq(settings.divisions[i], 8);
	ck_assert(settings.rounds);
	/* Between two boundaries nothing is rounded. */
	settings = parsed("roundup_power2_divisions=[4:8,64:2]");
	ck_assert_uint_eq(settings.divisions[2], 8);
	ck_assert_uint_eq(settings.divisions[3], 0);
	ck_assert_uint_eq(settings.divisions[6], 2);
	ck_assert_uint_eq(settings.divisions[7], 0);
}
END_TEST

START_TEST(what_is_no_setting_is_refused_and_said)
{
	check_refused("", "expected KEY=VALUE");
	check_refused("max_split_size_mb", "expected KEY=VALUE or KEY:VALUE, got 'max_split_size_mb'");
	check_refused("max_split=64", "unknown setting 'max_split'; did you mean 'max_split_size_mb'? there are");
	check_refused("expandable_segment:True", "did you mean 'expandable_segments'?");
	check_refused("pinned_use_background_threads=True",
		      "unknown setting 'pinned_use_background_threads'; there are max_split_size_mb, ");
	check_refused("max_split_size_mb=20", "above 20");
	check_refused("max_split_size_mb=-64", "above 20");
	check_refused("max_split_size_mb=64x", "'64x'");
	check_refused("max_split_size_mb=99999999999999999999", "above 20");
	check_refused("max_non_split_rounding_mb=4096", "up to 2048");
	check_refused("garbage_collection_threshold=0", "between 0 and 1");
	check_refused("garbage_collection_threshold=1", "between 0 and 1");
	check_refused("garbage_collection_threshold=nan", "between 0 and 1");
	check_refused("roundup_power2_divisions=3", "power of two");
	check_refused("roundup_power2_divisions=[3:2]", "powers of two");
	check_refused("roundup_power2_divisions=[256:3]", "powers of two");
	check_refused("roundup_power2_divisions=[256]", "a list such as");
	check_refused("roundup_power2_divisions=[256:1", "a list in brackets");
	check_refused("roundup_power2_divisions=[]", "a list in brackets");
	check_refused("expandable_segments=1", "True or False");
	check_refused("capacity=0", "a size such as 24G");
	check_refused("max_split_size_mb=64,,", "expected KEY=VALUE");
}
END_TEST

/* What would be left of it is another number. */
START_TEST(a_setting_that_is_too_long_or_given_twice_is_refused)
{
	char text[400] = "capacity=";

	memset(text + 9, '0', 300);
	strcpy(text + 309, "64M");
	check_refused(text, "expected at most 255 bytes of KEY=VALUE, got 312: 'capacity=000000");
	strcpy(text + 100, "64M,expandable_segments=True");
	ck_assert_uint_eq(parsed(text).capacity, 64 * MIB);
	check_refused("max_split_size_mb=64,expandable_segments=True,max_split_size_mb:128",
		      "max_split_size_mb is given twice, again as '128': expected it once");
}
END_TEST

static uint64_t
rounded(const char *text, uint64_t size)
{
	struct settings settings = parsed(text);

	return settings_round(&settings, size);
}

/* 1200 with 4 divisions between 1024 and 2048 is 1280: the documentation's example, in MiB. */
START_TEST(requests_go_up_to_the_next_division)
{
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 1200 * MIB), 1280 * MIB);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 1280 * MIB), 1280 * MIB);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 1280 * MIB + 1), 1536 * MIB);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 1900 * MIB), 2048 * MIB);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 1024 * MIB), 1024 * MIB);
	/* Up to 512 B a division is too small to be one. */
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 2048), 2048);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 2049), 2560);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=4", 1), 1);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=1", 1200 * MIB), 1200 * MIB);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=[256:1,>:2]", 255 * MIB), 255 * MIB);
	ck_assert_uint_eq(rounded("roundup_power2_divisions=[256:1,>:2]", 513 * MIB), 768 * MIB);
	/* The last interval is everything from 32 GiB on. */
	ck_assert_uint_eq(rounded("roundup_power2_divisions=2", 130 * 1024 * MIB), 192 * 1024 * MIB);
}
END_TEST

START_TEST(a_backend_is_a_policy)
{
	ck_assert_ptr_null(parsed("capacity=1G").policy);
	ck_assert_str_eq(parsed("backend:native").policy->name, "pytorch");
	ck_assert_str_eq(parsed("backend=cudaMallocAsync,capacity=1G").policy->name, "cuda");
	check_refused("backend:cuda", "backend: expected native or cudaMallocAsync, got 'cuda'");
}
END_TEST

START_TEST(the_variable_may_stand_before_its_value)
{
	struct settings settings = parsed("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,garbage_collection_threshold:0.5");

	ck_assert_uint_eq(settings.max_split, 64 * MIB);
	ck_assert_double_eq(settings.collect_threshold, 0.5);
	ck_assert(parsed("PYTORCH_ALLOC_CONF=expandable_segments:True").expandable);
	check_refused("PYTORCH_CUDA_ALLOC_CONF=", "expected KEY=VALUE");
	check_refused("PYTORCH_CUDA_ALLOC_CONF:max_split_size_mb:64", "unknown setting 'PYTORCH_CUDA_ALLOC_CONF'");
}
END_TEST

static struct replay_result
replay_with(const char *lines, const char *text, uint64_t capacity)
{
	struct replay_options options = options_for("pytorch");
	struct settings settings = parsed(text);
	struct soma_policy policy;
	struct replayed replayed;
	struct replay_result result;

	options.capacity = capacity;
	settings_apply(&settings, &policy, &options);
	replay_lines(&replayed, lines, options);
	result = replayed.result;
	replayed_end(&replayed);
	return result;
}

#define MB(n) #n "000000"

/* A 100 MB block is freed; 40 MB would be split off it, and 100 MB would then need more. */
static const char split_lines[] = "1,,alloc,0,1,0x1000000," MB(100) ",,,\n"
				  "2,,free,0,1,0x1000000,,,,\n"
				  "3,,alloc,0,1,0x2000000," MB(40) ",,,\n"
				  "4,,alloc,0,1,0x10000000," MB(100) ",,,\n";

START_TEST(what_is_oversize_is_not_split)
{
	struct replay_result plain = replay_with(split_lines, "capacity=100G", 0);
	struct replay_result kept = replay_with(split_lines, "max_split_size_mb=64", 0);

	ck_assert_uint_eq(plain.peak_reserved, 96 * MIB + 96 * MIB);
	ck_assert_uint_eq(kept.peak_reserved, 96 * MIB + 40 * MIB);
	ck_assert_uint_eq(plain.peak_live_requested, kept.peak_live_requested);
}
END_TEST

START_TEST(an_oversize_block_serves_what_leaves_little_of_it)
{
	static const char lines[] = "1,,alloc,0,1,0x1000000," MB(100) ",,,\n"
				    "2,,free,0,1,0x1000000,,,,\n"
				    "3,,alloc,0,1,0x2000000," MB(75) ",,,\n";

	/* 96 MiB less 75 MB is above the 20 MiB of the default, and below 32 MiB. */
	ck_assert_uint_eq(replay_with(lines, "max_split_size_mb=64", 0).counts.segments, 2);
	ck_assert_uint_eq(
		replay_with(lines, "max_split_size_mb=64,max_non_split_rounding_mb=32", 0).counts.segments, 1);
}
END_TEST

/* Under the capacity, the oversize block that is just large enough goes before all others. */
START_TEST(room_is_made_by_one_oversize_block_before_everything_is_released)
{
	static const char lines[] = "1,,alloc,0,1,0x1000000,1000,,,\n"
				    "2,,alloc,0,1,0x2000000," MB(100) ",,,\n"
				    "3,,alloc,0,1,0x10000000," MB(200) ",,,\n"
				    "4,,free,0,1,0x1000000,,,,\n"
				    "5,,free,0,1,0x2000000,,,,\n"
				    "6,,free,0,1,0x10000000,,,,\n"
				    "7,,alloc,0,1,0x30000000," MB(120) ",,,\n"
				    "8,,alloc,0,1,0x1000000,1000,,,\n";
	struct replay_result result = replay_with(lines, "max_split_size_mb=64", 290 * MIB);

	ck_assert(!result.oom.happened);
	/* The small segment was kept: it is one of four, none made anew. */
	ck_assert_uint_eq(result.counts.segments, 4);
	ck_assert_uint_eq(replay_with(lines, "capacity=290M", 0).counts.segments, 3);
}
END_TEST

/* 30 MB goes idle early and is not looked at again, 40 MB is in use all the time. */
static const char idle_lines[] = "1,,alloc,0,1,0x1000000," MB(30) ",,,\n"
				 "2,,alloc,0,1,0x4000000," MB(40) ",,,\n"
				 "3,,free,0,1,0x1000000,,,,\n"
				 "4,,free,0,1,0x4000000,,,,\n"
				 "5,,alloc,0,1,0x4000000," MB(40) ",,,\n"
				 "6,,free,0,1,0x4000000,,,,\n"
				 "7,,alloc,0,1,0x8000000," MB(60) ",,,\n";

START_TEST(what_is_idle_for_long_is_collected_above_the_threshold)
{
	struct replay_result plain = replay_with(idle_lines, "capacity=200M", 0);
	struct replay_result collected =
		replay_with(idle_lines, "capacity=200M,garbage_collection_threshold=0.3", 0);

	ck_assert_uint_eq(plain.peak_reserved, (30 + 40 + 58) * MIB);
	/* 70 MiB are above 60: the older of the two goes, and that is enough. */
	ck_assert_uint_eq(collected.peak_reserved, (40 + 58) * MIB);
	ck_assert_uint_eq(replay_with(idle_lines, "garbage_collection_threshold=0.3", 0).peak_reserved,
			  plain.peak_reserved);
}
END_TEST

START_TEST(rounding_is_waste_and_no_live_byte)
{
	static const char lines[] = "1,,alloc,0,1,0x1000000," MB(70) ",,,\n2,,free,0,1,0x1000000,,,,\n"
				    "3,,alloc,0,1,0x1000000," MB(70) ",,,\n";
	struct replay_result result = replay_with(lines, "roundup_power2_divisions=2", 0);

	ck_assert_uint_eq(result.peak_live_requested, 70000000);
	ck_assert_uint_eq(result.at_peak.live_requested, 70000000);
	ck_assert_uint_eq(result.counts.live_bytes, 70000000);
	ck_assert_uint_eq(result.peak_reserved, 96 * MIB);
	ck_assert_uint_eq(result.at_peak.rounding_waste, 96 * MIB - 70000000);
	result = replay_with(lines, "roundup_power2_divisions=2,capacity=70M", 0);
	ck_assert(result.oom.happened);
	ck_assert_uint_eq(result.oom.requested, 70000000);
	ck_assert_uint_eq(result.oom.short_by, 26 * MIB);
}
END_TEST

/* 64 MiB stay; each cycle takes 91 and 45.5 MiB, then 2 MiB that stay, and frees the first two. */
static void
fenced_lines(char *lines, size_t size, unsigned cycles)
{
	static const uint64_t sizes[] = { 91 * MIB, 91 * MIB / 2, 2 * MIB };
	size_t used = (size_t)snprintf(lines, size, "1,,alloc,0,1,0x100000000000,%" PRIu64 ",,,\n", 64 * MIB);

	for (unsigned cycle = 0; cycle <= cycles; cycle++) {
		uint64_t ptr = (uint64_t)(cycle + 1) << 32;

		for (unsigned i = 0; i < 3; i++)
			used += (size_t)snprintf(lines + used, size - used,
						 "1,,alloc,0,1,0x%" PRIx64 ",%" PRIu64 ",,,\n", ptr + ((uint64_t)i << 30),
						 sizes[i]);
		for (unsigned i = 0; i < 2; i++)
			used += (size_t)snprintf(lines + used, size - used, "1,,free,0,1,0x%" PRIx64 ",,,,\n",
						 ptr + ((uint64_t)i << 30));
	}
}

/*
 * What was measured on a GPU and published with pytorch/pytorch pull request 193400: free memory
 * that grew together above the limit serves neither request again.
 */
START_TEST(with_expandable_segments_free_memory_above_the_limit_is_passed_over)
{
	static const uint64_t reserved[] = { 220, 2980, 5760, 8520, 11300, 14060 };
	static char lines[32768];

	for (unsigned i = 0; i < 6; i++) {
		fenced_lines(lines, sizeof lines, 20 * i);
		ck_assert_uint_eq(
			replay_with(lines, "max_split_size_mb=128,expandable_segments=True", 0).peak_reserved,
			reserved[i] * MIB);
		ck_assert_uint_lt(replay_with(lines, "expandable_segments=True", 0).peak_reserved, 500 * MIB);
		ck_assert_uint_lt(replay_with(lines, "max_split_size_mb=128", 0).peak_reserved, 500 * MIB);
	}
}
END_TEST

/* 200 MiB are free in one piece before 2 that are not, above the limit. */
#define PIECE                                                                                    \
	"1,,alloc,0,1,0x10000000,209715200,,,\n2,,alloc,0,1,0x20000000,2097152,,,\n"           \
	"3,,free,0,1,0x10000000,,,,\n4,,alloc,0,1,0x40000000,"

START_TEST(with_expandable_segments_an_oversize_request_takes_what_leaves_little)
{
	static const char settings[] = "max_split_size_mb=128,expandable_segments=True";

	/* 20 MiB, the slack, are not left any more: the front is used. */
	ck_assert_uint_eq(replay_with(PIECE "188743681,,,\n", settings, 0).peak_reserved, 220 * MIB);
	/* They are: it goes to the end, where 18 MiB are free. */
	ck_assert_uint_eq(replay_with(PIECE "188743680,,,\n", settings, 0).peak_reserved, 400 * MIB);
	/* Nor is it for requests below the limit. */
	ck_assert_uint_eq(replay_with(PIECE "73400320,,,\n", settings, 0).peak_reserved, 280 * MIB);
}
END_TEST

/* Each stream has ranges of its own, for small and for large blocks, and addresses do not run short. */
START_TEST(with_expandable_segments_any_number_of_streams_has_addresses)
{
	const unsigned streams = 300;
	char *lines = calloc(streams, 160), *end = lines;

	ck_assert_ptr_nonnull(lines);
	for (unsigned i = 0; i < streams; i++) {
		end += sprintf(end, "%u,,alloc,0,%u,%u,512,,,\n", 2 * i, i + 1, 4096 * (2 * i + 1));
		end += sprintf(end, "%u,,alloc,0,%u,%u,20971520,,,\n", 2 * i + 1, i + 1, 4096 * (2 * i + 2));
	}
	ck_assert_uint_eq(replay_with(lines, "expandable_segments=True", 0).peak_reserved,
			  streams * UINT64_C(22) * MIB);
	free(lines);
}
END_TEST

START_TEST(collecting_leaves_expandable_segments_alone)
{
	ck_assert_uint_eq(
		replay_with(idle_lines, "capacity=200M,garbage_collection_threshold=0.3,expandable_segments=True", 0)
			.peak_reserved,
		replay_with(idle_lines, "capacity=200M,expandable_segments=True", 0).peak_reserved);
}
END_TEST

UNIT_MAIN("settings", settings_are_read_as_pytorch_reads_them,
	  a_colon_stands_for_an_equals_sign_as_in_the_variable, a_list_of_divisions_is_by_size,
	  what_is_no_setting_is_refused_and_said,
	  a_setting_that_is_too_long_or_given_twice_is_refused, requests_go_up_to_the_next_division,
	  what_is_oversize_is_not_split, an_oversize_block_serves_what_leaves_little_of_it,
	  room_is_made_by_one_oversize_block_before_everything_is_released,
	  what_is_idle_for_long_is_collected_above_the_threshold, rounding_is_waste_and_no_live_byte,
	  with_expandable_segments_free_memory_above_the_limit_is_passed_over,
	  with_expandable_segments_an_oversize_request_takes_what_leaves_little,
	  with_expandable_segments_any_number_of_streams_has_addresses,
	  collecting_leaves_expandable_segments_alone, a_backend_is_a_policy,
	  the_variable_may_stand_before_its_value)
