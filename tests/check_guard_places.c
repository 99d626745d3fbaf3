/* SPDX-License-Identifier: Apache-2.0 */
/* The files of code addresses, by lists of mappings and memory that are made up here. */
#include "config.h"

#include "tests/unit.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/guard/places.h"

static struct places places;
static int maps, memory;

static void
begin(void)
{
	memset(&places, 0, sizeof places);
	maps = memfd_create("maps", 0);
	memory = memfd_create("memory", 0);
	ck_assert(maps >= 0 && memory >= 0);
}

static void
find(void)
{
	ck_assert_int_eq(lseek(maps, 0, SEEK_SET), 0);
	places_read(&places, maps, memory);
	close(maps);
	close(memory);
}

__attribute__((format(printf, 1, 2))) static void
map(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ck_assert_int_gt(vdprintf(maps, format, args), 0);
	va_end(args);
}

/* A file at this address that was linked to another one; its second part is loaded. */
static void
put_file(uint64_t at, uint64_t linked)
{
	const ElfW(Ehdr) head = { .e_ident = ELFMAG, .e_phoff = 0x40, .e_phnum = 2 };
	const ElfW(Phdr) parts[2] = {
		{ .p_type = PT_PHDR, .p_vaddr = linked + 0x40, .p_offset = 0x40 },
		{ .p_type = PT_LOAD, .p_vaddr = linked + 0x1000, .p_offset = 0x1000 },
	};

	ck_assert_int_eq(pwrite(memory, &head, sizeof head, (off_t)at), sizeof head);
	ck_assert_int_eq(pwrite(memory, parts, sizeof parts, (off_t)(at + 0x40)), sizeof parts);
}

static void
expect(uint32_t i, const char *file, uint64_t offset)
{
	ck_assert_uint_lt(i, places.count);
	if (file == NULL) {
		ck_assert_ptr_null(places.at[i].file);
		return;
	}
	ck_assert_ptr_nonnull(places.at[i].file);
	ck_assert_str_eq(places.at[i].file, file);
	ck_assert_uint_eq(places.at[i].offset, offset);
}

START_TEST(a_place_is_counted_from_where_the_file_was_linked_to)
{
	begin();
	put_file(0x400000, 0x400000);
	put_file(0x70000000, 0);
	put_file(0x71000000, 0x20000);
	map("00400000-00401000 r--p 00000000 08:01 11                 /bin/fixed\n"
	    "00401000-00402000 r-xp 00001000 08:01 11                 /bin/fixed\n"
	    "70000000-70001000 r--p 00000000 08:01 12                 /lib/moved to here.so\n"
	    "70001000-70002000 r-xp 00000800 08:01 12                 /lib/moved to here.so\n"
	    "71000000-71001000 r-xp 00000000 08:01 13                 /lib/prelinked.so (deleted)\n");
	places_add(&places, 0x401234);
	places_add(&places, 0x70001800);
	places_add(&places, 0x71000010);
	places_add(&places, 0x70001000);
	find();
	expect(0, "/bin/fixed", 0x401234);
	expect(1, "/lib/moved to here.so", 0x1800);
	expect(2, "/lib/prelinked.so (deleted)", 0x20010);
	expect(3, "/lib/moved to here.so", 0x1000);
}
END_TEST

START_TEST(the_ends_of_a_mapping_are_its_first_byte_and_the_one_behind_it)
{
	begin();
	put_file(0x1000, 0);
	map("1000-3000 r-xp 00000000 08:01 1 /a\n");
	places_add(&places, 0xfff);
	places_add(&places, 0x1000);
	places_add(&places, 0x2fff);
	places_add(&places, 0x3000);
	find();
	expect(0, NULL, 0);
	expect(1, "/a", 0);
	expect(2, "/a", 0x1fff);
	expect(3, NULL, 0);
}
END_TEST

START_TEST(memory_of_no_file_has_none)
{
	begin();
	map("1000-2000 rwxp 00000000 00:00 0 \n"
	    "2000-3000 r-xp 00000000 00:00 0                          [vdso]\n"
	    "not a line of such a list\n"
	    "\n");
	places_add(&places, 0x1010);
	places_add(&places, 0x2010);
	places_add(&places, 0);
	find();
	for (uint32_t i = 0; i < 3; i++)
		expect(i, NULL, 0);
}
END_TEST

START_TEST(of_what_is_no_program_and_of_a_part_alone_the_place_in_the_file_is_known)
{
	begin();
	ck_assert_int_eq(ftruncate(memory, 0x10000), 0);
	map("1000-2000 r--p 00000000 08:01 1 /code\n"
	    "2000-3000 r-xp 00005000 08:01 1 /code\n"
	    "4000-5000 r-xp 00007000 08:01 2 /part\n");
	places_add(&places, 0x1010);
	places_add(&places, 0x4010);
	find();
	expect(0, "/code", 0x10);
	expect(1, "/part", 0x7010);
}
END_TEST

START_TEST(without_its_headers_a_file_is_not_named)
{
	const ElfW(Ehdr) head = { .e_ident = ELFMAG, .e_phoff = 0x40, .e_phnum = 1 };

	begin();
	map("1000-2000 r-xp 00000000 08:01 1 /gone\n"
	    "4000-5000 r-xp 00007000 08:01 2 /part\n");
	places_add(&places, 0x1010);
	places_add(&places, 0x4010);
	find();
	expect(0, NULL, 0);
	expect(1, "/part", 0x7010);
	begin();
	ck_assert_int_eq(pwrite(memory, &head, sizeof head, 0x1000), sizeof head);
	map("1000-2000 r-xp 00000000 08:01 1 /cut\n");
	places_add(&places, 0x1010);
	find();
	expect(0, NULL, 0);
}
END_TEST

/* The list is longer than the buffer by far, and its lines have all lengths. */
START_TEST(a_list_of_many_mappings_is_read_to_its_end)
{
	begin();
	put_file(0x10000000, 0);
	for (unsigned i = 0; i < 2000; i++)
		map("%08x-%08x rw-p 00000000 08:01 7 /%.*s\n", i * 0x2000, i * 0x2000 + 0x1000, (int)(i % 97),
		    "a name that is longer than many others, and of which there is a part in each of these "
		    "lines ...");
	map("10000000-10001000 r-xp 00000000 08:01 9 /last");
	map("\n");
	places_add(&places, 0x10000020);
	find();
	expect(0, "/last", 0x20);
}
END_TEST

START_TEST(a_line_that_is_too_long_is_passed_over_and_what_follows_is_read)
{
	char name[sizeof places.lines + 200];

	memset(name, 'f', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	for (size_t cut = 0; cut < 300; cut += 100) {
		begin();
		put_file(0x3000, 0);
		map("1000-2000 r-xp 00000000 08:01 1 /%s\n", name + cut);
		map("3000-4000 r-xp 00000000 08:01 2 /next\n");
		places_add(&places, 0x1010);
		places_add(&places, 0x3010);
		find();
		expect(0, NULL, 0);
		expect(1, "/next", 0x10);
	}
}
END_TEST

START_TEST(without_room_for_its_name_a_place_has_none)
{
	char name[sizeof places.names / 2];

	begin();
	memset(name, 'n', sizeof name - 2);
	name[sizeof name - 2] = '\0';
	for (unsigned i = 1; i < 4; i++) {
		put_file(i * 0x2000, 0);
		map("%x-%x r-xp 00000000 08:01 %u /%s\n", i * 0x2000, i * 0x2000 + 0x1000, i, name);
		places_add(&places, i * 0x2000 + 8);
	}
	find();
	ck_assert_str_eq(places.at[0].file + 1, name);
	ck_assert_str_eq(places.at[1].file + 1, name);
	expect(2, NULL, 0);
	ck_assert_uint_eq(places.names_used, sizeof places.names);
}
END_TEST

START_TEST(more_addresses_than_there_is_room_for_are_not_added)
{
	begin();
	for (unsigned i = 0; i < PLACES_MAX + 5; i++)
		places_add(&places, 0x1000 + i);
	ck_assert_uint_eq(places.count, PLACES_MAX);
	map("0-100000 r-xp 00000000 08:01 1 /all\n");
	ck_assert_int_eq(ftruncate(memory, 0x1000), 0);
	find();
	expect(PLACES_MAX - 1, "/all", 0x1000 + PLACES_MAX - 1);
}
END_TEST

UNIT_MAIN("guard places", a_place_is_counted_from_where_the_file_was_linked_to,
	  the_ends_of_a_mapping_are_its_first_byte_and_the_one_behind_it, memory_of_no_file_has_none,
	  of_what_is_no_program_and_of_a_part_alone_the_place_in_the_file_is_known,
	  without_its_headers_a_file_is_not_named, a_list_of_many_mappings_is_read_to_its_end,
	  a_line_that_is_too_long_is_passed_over_and_what_follows_is_read,
	  without_room_for_its_name_a_place_has_none, more_addresses_than_there_is_room_for_are_not_added)
