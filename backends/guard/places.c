/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of code addresses; see places.h.  Headers of files are read by pread from the process's memory, so that
 * what is unmapped meanwhile is an error, and no second fault.
 */
#include "config.h"

#include "backends/guard/places.h"

#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Headers of a file's parts that are looked at for the first that is loaded. */
#define PARTS_MAX 64

struct mapping {
	uint64_t from, to, offset, inode;
	const char *path;
};

void
places_add(struct places *places, uint64_t address)
{
	if (places->count < PLACES_MAX)
		places->at[places->count++] = (struct place){ .address = address };
}

/* ---- a line of the list ---------------------------------------------------------------- */

static const char *
take_number(const char *at, unsigned base, uint64_t *number)
{
	static const char digits[] = "0123456789abcdef";
	const char *digit;

	for (*number = 0; *at != '\0' && (digit = memchr(digits, *at, base)) != NULL; at++)
		*number = *number * base + (uint64_t)(digit - digits);
	return at;
}

/* Over the rest of this word and what is before the next one. */
static const char *
next_word(const char *at)
{
	while (*at != ' ' && *at != '\0')
		at++;
	while (*at == ' ')
		at++;
	return at;
}

/* "from-to rights offset device inode path" */
static struct mapping
take_line(const char *line)
{
	struct mapping mapping;
	const char *at = take_number(line, 16, &mapping.from);

	at = take_number(*at == '-' ? at + 1 : at, 16, &mapping.to);
	at = take_number(next_word(next_word(at)), 16, &mapping.offset);
	at = take_number(next_word(next_word(at)), 10, &mapping.inode);
	mapping.path = next_word(at);
	return mapping;
}

/* ---- where a file was linked to ---------------------------------------------------------- */

static bool
read_memory(int memory, uint64_t at, void *to, size_t size)
{
	return pread(memory, to, size, (off_t)at) == (ssize_t)size;
}

/* The address of the file's beginning, as it was linked: 0 in what may be loaded anywhere, and in what is no
 * program.  False: its headers cannot be read. */
static bool
find_linked(int memory, uint64_t beginning, uint64_t *linked)
{
	ElfW(Ehdr) file;
	ElfW(Phdr) part = { .p_type = PT_NULL };

	*linked = 0;
	if (!read_memory(memory, beginning, &file, sizeof file))
		return false;
	if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
		return true;
	for (unsigned i = 0; i < file.e_phnum && i < PARTS_MAX && part.p_type != PT_LOAD; i++)
		if (!read_memory(memory, beginning + file.e_phoff + i * sizeof part, &part, sizeof part))
			return false;
	if (part.p_type == PT_LOAD)
		*linked = part.p_vaddr - part.p_offset;
	return true;
}

/* ---- naming -------------------------------------------------------------------------------- */

/* NULL: there is no room. */
static const char *
keep_name(struct places *places, const char *path)
{
	size_t size = strlen(path) + 1;
	char *to = places->names + places->names_used;

	if (size > sizeof places->names - places->names_used)
		return NULL;
	memcpy(to, path, size);
	places->names_used += size;
	return to;
}

static bool
is_in(const struct mapping *mapping, const struct place *place)
{
	return place->address >= mapping->from && place->address < mapping->to;
}

/* What an address in this mapping was when the file was linked is so much more.  `first`: the mapping of the
 * beginning of a file; without its beginning places are those in the file.  False: it is not known. */
static bool
find_shift(const struct mapping *mapping, const struct mapping *first, int memory, uint64_t *shift)
{
	uint64_t linked;

	*shift = mapping->offset - mapping->from;
	if (first->inode != mapping->inode)
		return true;
	if (!find_linked(memory, first->from, &linked))
		return false;
	*shift = linked - first->from;
	return true;
}

static void
name_places(struct places *places, const struct mapping *mapping, const struct mapping *first, int memory)
{
	const char *name = NULL;
	uint64_t shift;

	for (uint32_t i = 0; i < places->count; i++) {
		struct place *place = &places->at[i];
		if (!is_in(mapping, place))
			continue;
		if (name == NULL && find_shift(mapping, first, memory, &shift))
			name = keep_name(places, mapping->path);
		if (name == NULL)
			return;
		place->file = name;
		place->offset = place->address + shift;
	}
}

/* A file's mappings are beside each other, the one of its beginning before the others. */
static void
look_at(struct places *places, const char *line, struct mapping *first, int memory)
{
	struct mapping mapping = take_line(line);

	if (mapping.inode == 0)
		return;
	if (mapping.offset == 0)
		*first = mapping;
	name_places(places, &mapping, first, memory);
}

void
places_read(struct places *places, int maps, int memory)
{
	struct mapping first = { .inode = 0 };
	size_t used = 0, room = sizeof places->lines;
	bool too_long = false; /* the line in hand: it is passed over */
	ssize_t n;

	while ((n = read(maps, places->lines + used, room - used)) > 0) {
		char *line = places->lines, *end;
		used += (size_t)n;
		while ((end = memchr(line, '\n', used)) != NULL) {
			*end = '\0';
			if (!too_long)
				look_at(places, line, &first, memory);
			too_long = false;
			used -= (size_t)(end + 1 - line);
			line = end + 1;
		}
		memmove(places->lines, line, used);
		too_long = too_long || used == room;
		used = used == room ? 0 : used;
	}
}

/* Of a process whose first thread has ended "self" has no mappings. */
static int
open_own(const char *by_thread, const char *by_process)
{
	int file = open(by_thread, O_RDONLY | O_CLOEXEC);

	return file >= 0 ? file : open(by_process, O_RDONLY | O_CLOEXEC);
}

void
places_find(struct places *places)
{
	int maps = open_own("/proc/thread-self/maps", "/proc/self/maps");
	int memory = open_own("/proc/thread-self/mem", "/proc/self/mem");

	if (maps >= 0)
		places_read(places, maps, memory);
	if (maps >= 0)
		close(maps);
	if (memory >= 0)
		close(memory);
}
