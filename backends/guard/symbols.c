/* SPDX-License-Identifier: Apache-2.0 */
/* Names for return addresses; see symbols.h.  libdw is not safe for threads: one report at a time. */
#include "config.h"

#include "backends/guard/symbols.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

size_t
symbols_first(void *const *frames, size_t count)
{
	size_t inside = 0;
	Dl_info info;

	while (inside < count && dladdr((char *)frames[inside] - 1, &info) != 0 && info.dli_fname != NULL &&
	       strncmp(base_name(info.dli_fname), "libsoma.", sizeof "libsoma." - 1) == 0)
		inside++;
	return inside > 0 ? inside - 1 : 0;
}

static void
name_plain(void *pc, char *text, size_t size)
{
	Dl_info info;

	if (dladdr(pc, &info) == 0 || info.dli_fname == NULL) {
		snprintf(text, size, "%p", pc);
		return;
	}
	unsigned long offset = (unsigned long)((char *)pc - (char *)info.dli_fbase);
	if (info.dli_sname != NULL)
		snprintf(text, size, "%s+0x%lx (%s+0x%lx)", info.dli_sname,
			 (unsigned long)((char *)pc - (char *)info.dli_saddr), base_name(info.dli_fname),
			 offset);
	else
		snprintf(text, size, "%p (%s+0x%lx)", pc, base_name(info.dli_fname), offset);
}

#ifdef SOMA_WITH_LIBDW
#include <elfutils/libdwfl.h>

/* Only what the modules carry themselves: looking elsewhere may mean asking servers. */
static int
no_other_file(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base, const char *file,
	      const char *link, GElf_Word crc, char **found)
{
	(void)module, (void)user, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)found;
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = no_other_file,
};

/* Reading debug information is slow, so it is kept.  The mutex is held between open and close. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static Dwfl *kept;

static Dwfl *
look_at_process(void)
{
	Dwfl *dwfl = dwfl_begin(&callbacks);

	if (dwfl != NULL &&
	    (dwfl_linux_proc_report(dwfl, getpid()) != 0 || dwfl_report_end(dwfl, NULL, NULL) != 0)) {
		dwfl_end(dwfl);
		dwfl = NULL;
	}
	return dwfl;
}

struct symbols *
symbols_open(void)
{
	pthread_mutex_lock(&mutex);
	if (kept == NULL)
		kept = look_at_process();
	return (struct symbols *)&kept;
}

void
symbols_close(struct symbols *symbols)
{
	(void)symbols;
	pthread_mutex_unlock(&mutex);
}

static bool
name_by_debug(Dwfl *dwfl, void *pc, char *text, size_t size)
{
	/* The call lies before what it returns to. */
	Dwarf_Addr address = (Dwarf_Addr)(uintptr_t)pc - 1;
	Dwfl_Module *module = dwfl_addrmodule(dwfl, address);
	const char *function = module == NULL ? NULL : dwfl_module_addrname(module, address);
	Dwfl_Line *line = module == NULL ? NULL : dwfl_module_getsrc(module, address);
	const char *file = NULL;
	int number = 0;

	if (line != NULL)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	if (function == NULL || file == NULL)
		return false;
	snprintf(text, size, "%s (%s:%d)", function, base_name(file), number);
	return true;
}

void
symbols_name(struct symbols *symbols, void *pc, char *text, size_t size)
{
	(void)symbols;
	/* What was loaded since is not known yet. */
	if (kept != NULL && dwfl_addrmodule(kept, (Dwarf_Addr)(uintptr_t)pc) == NULL) {
		dwfl_end(kept);
		kept = look_at_process();
	}
	if (kept == NULL || !name_by_debug(kept, pc, text, size))
		name_plain(pc, text, size);
}
#else
struct symbols *
symbols_open(void)
{
	return NULL;
}

void
symbols_close(struct symbols *symbols)
{
	(void)symbols;
}

void
symbols_name(struct symbols *symbols, void *pc, char *text, size_t size)
{
	(void)symbols;
	name_plain(pc, text, size);
}
#endif
