/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of SIGSEGV for blocks in mappings of their own: says which block an access
 * hit beside or after its life, then lets the handler that was there before go on.
 *
 * In the handler: loads of atomics and write(2), nothing else.  Open guards are in a fixed table of
 * atomic pointers; closing takes the guard out and does not wait for handlers.
 */
#include "config.h"

#include "backends/guard/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "backends/guard/guard.h"
#include "backends/guard/local.h"

#define GUARDS_MAX 16u
#define STACK_BYTES ((size_t)64 << 10)
#define SHOWN_FRAMES 16u

static _Atomic(struct soma_backend *) guards[GUARDS_MAX];
static struct sigaction before;
static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static bool installed;

/* ---- one line at a time, without the C library's help -------------------------------- */

struct line {
	char text[2048];
	size_t used;
};

static void
put(struct line *line, const char *text)
{
	for (; *text != '\0' && line->used < sizeof line->text; text++)
		line->text[line->used++] = *text;
}

static void
put_number(struct line *line, uint64_t value, unsigned base)
{
	char digits[24];
	unsigned n = sizeof digits - 1;

	digits[n] = '\0';
	do
		digits[--n] = "0123456789abcdef"[value % base];
	while ((value /= base) != 0);
	put(line, base == 16 ? "0x" : "");
	put(line, digits + n);
}

static void
put_offset(struct line *line, uint64_t address, uint64_t ptr)
{
	put(line, address >= ptr ? "+" : "-");
	put_number(line, address >= ptr ? address - ptr : ptr - address, 10);
}

static void
put_stack(struct line *line, struct soma_backend *g, const char *name, uint32_t id)
{
	void *const *frames;
	uint32_t count = stacks_frames(&g->stacks, id, &frames);

	if (count == 0)
		return;
	put(line, "\n ");
	put(line, name);
	put(line, ":");
	for (uint32_t i = 0; i < count && i < SHOWN_FRAMES; i++) {
		put(line, " ");
		put_number(line, (uint64_t)(uintptr_t)frames[i], 16);
	}
}

static void
put_json(struct line *line, const char *kind, const char *access, uint64_t address,
	 const struct fault_slot *slot)
{
	put(line, "{\"guard\":\"soma\",\"severity\":\"error\",\"kind\":\"");
	put(line, kind);
	put(line, "\",\"access\":\"");
	put(line, access);
	put(line, "\",\"address\":\"");
	put_number(line, address, 16);
	put(line, "\",\"ptr\":\"");
	put_number(line, atomic_load(&slot->ptr), 16);
	put(line, "\",\"size\":");
	put_number(line, atomic_load(&slot->size), 10);
	put(line, ",\"generation\":");
	put_number(line, atomic_load(&slot->generation), 10);
	put(line, "}\n");
}

static void
write_all(int fd, const struct line *line)
{
	size_t done = 0;

	while (done < line->used) {
		ssize_t n = write(fd, line->text + done, line->used - done);
		if (n <= 0)
			return;
		done += (size_t)n;
	}
}

/* ---- what was hit ---------------------------------------------------------------------- */

static const char *
access_of(void *context)
{
#if defined(__x86_64__)
	/* Bit 1 of the page fault's error code. */
	const ucontext_t *ucontext = context;
	return (ucontext->uc_mcontext.gregs[REG_ERR] & 2) != 0 ? "write" : "read";
#else
	(void)context;
	return "access";
#endif
}

static const char *
kind_of(const struct fault_slot *slot, uint64_t address)
{
	if (atomic_load(&slot->freed))
		return "access-after-free";
	return address < atomic_load(&slot->ptr) ? "oob-access-before" : "oob-access-after";
}

static void
tell(struct soma_backend *g, const struct fault_slot *slot, uint64_t address, const char *access)
{
	struct line line = { .used = 0 };
	const char *kind = kind_of(slot, address);

	put(&line, "soma-guard: ERROR ");
	put(&line, kind);
	put(&line, "  ");
	put(&line, access);
	put(&line, " of ");
	put_number(&line, address, 16);
	put(&line, ", offset ");
	put_offset(&line, address, atomic_load(&slot->ptr));
	put(&line, " of block ");
	put_number(&line, atomic_load(&slot->ptr), 16);
	put(&line, " size ");
	put_number(&line, atomic_load(&slot->size), 10);
	put(&line, " gen ");
	put_number(&line, atomic_load(&slot->generation), 10);
	put(&line, atomic_load(&slot->freed) ? " state freed" : " state live");
	put_stack(&line, g, "alloc", atomic_load(&slot->alloc_stack));
	put_stack(&line, g, "free", atomic_load(&slot->free_stack));
	put(&line, "\n found by: fault (SIGSEGV)\n");
	write_all(g->reporter.output, &line);
	if (g->reporter.json < 0)
		return;
	line.used = 0;
	put_json(&line, kind, access, address, slot);
	write_all(g->reporter.json, &line);
}

static bool
explain(struct soma_backend *g, uint64_t address, const char *access)
{
	uint32_t count = atomic_load(&g->mapped.slot_count);

	for (uint32_t i = 0; i < count; i++) {
		struct fault_slot *chunk = atomic_load(&g->mapped.chunks[i / FAULT_SLOTS]);
		const struct fault_slot *slot = &chunk[i % FAULT_SLOTS];
		uint64_t range = atomic_load(&slot->range);
		if (range == 0 || address < range || address - range >= atomic_load(&slot->range_size))
			continue;
		tell(g, slot, address, access);
		return true;
	}
	return false;
}

static void
chain(int number, siginfo_t *info, void *context)
{
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(number, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(number);
	} else {
		/* Returning repeats the access, which now ends the process as it should. */
		signal(number, SIG_DFL);
		if (info->si_code <= 0)
			raise(number);
	}
}

static void
on_fault(int number, siginfo_t *info, void *context)
{
	int saved = errno;

	for (uint32_t i = 0; info->si_code > 0 && i < GUARDS_MAX; i++) {
		struct soma_backend *g = atomic_load(&guards[i]);
		if (g != NULL && !guard_is_idle(g) &&
		    explain(g, (uint64_t)(uintptr_t)info->si_addr, access_of(context)))
			break;
	}
	errno = saved;
	chain(number, info, context);
}

/* ---- setting up -------------------------------------------------------------------------- */

void
fault_drop_stack(void *stack)
{
	stack_t none = { .ss_flags = SS_DISABLE };

	sigaltstack(&none, NULL);
	munmap(stack, STACK_BYTES);
}

static void
install(void)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK };

	action.sa_sigaction = on_fault;
	sigemptyset(&action.sa_mask);
	installed = sigaction(SIGSEGV, &action, &before) == 0;
}

void
fault_prepare_thread(void)
{
	struct local *local = local_get();
	stack_t now, own;

	if (local == NULL || local->prepared)
		return;
	local->prepared = true;
	if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
		return;
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack == MAP_FAILED)
		return;
	own = (stack_t){ .ss_sp = stack, .ss_size = STACK_BYTES };
	if (sigaltstack(&own, NULL) != 0)
		munmap(stack, STACK_BYTES);
	else
		local->fault_stack = stack;
}

bool
fault_enter(struct soma_backend *g)
{
	pthread_once(&install_once, install);
	for (uint32_t i = 0; installed && i < GUARDS_MAX; i++) {
		struct soma_backend *none = NULL;
		if (atomic_compare_exchange_strong(&guards[i], &none, g)) {
			fault_prepare_thread();
			return true;
		}
	}
	return false;
}

void
fault_leave(struct soma_backend *g)
{
	for (uint32_t i = 0; i < GUARDS_MAX; i++) {
		struct soma_backend *own = g;
		atomic_compare_exchange_strong(&guards[i], &own, NULL);
	}
}
