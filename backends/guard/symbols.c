/* SPDX-License-Identifier: Apache-2.0 */
/* Names for return addresses; see symbols.h.  No state between reports, no locks. */
#include "config.h"

#include "backends/guard/symbols.h"

#include <dlfcn.h>
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
			 (unsigned long)((char *)pc - (char *)info.dli_saddr), base_name(info.dli_fname), offset);
	else
		snprintf(text, size, "%p (%s+0x%lx)", pc, base_name(info.dli_fname), offset);
}

#ifdef SOMA_WITH_LIBDW
#include <elfutils/libdwfl.h>

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_linux_proc_find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
};

struct symbols *
symbols_open(void)
{
	Dwfl *dwfl = dwfl_begin(&callbacks);

	if (dwfl != NULL && (dwfl_linux_proc_report(dwfl, getpid()) != 0 ||
			     dwfl_report_end(dwfl, NULL, NULL) != 0)) {
		dwfl_end(dwfl);
		dwfl = NULL;
	}
	return (struct symbols *)dwfl;
}

void
symbols_close(struct symbols *symbols)
{
	if (symbols != NULL)
		dwfl_end((Dwfl *)symbols);
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
	if (symbols == NULL || !name_by_debug((Dwfl *)symbols, pc, text, size))
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
