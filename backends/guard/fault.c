/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of SIGSEGV for blocks in mappings of their own: says which block an access
 * hit beside or after its life, and what made it, then lets the handler that was there before go on.
 *
 * In the handler: atomics, write(2), and what places.h does; nothing else.  Open guards are in a fixed table of
 * atomic pointers; closing takes the guard out and does not wait for handlers.
 */
#include "config.h"

#include "backends/guard/mapped.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "backends/guard/guard.h"
#include "backends/guard/local.h"
#include "backends/guard/places.h"

#define GUARDS_MAX 16u
#define STACK_BYTES ((size_t)64 << 10)

static _Atomic(struct soma_backend *) guards[GUARDS_MAX];
static struct sigaction before;
static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static bool installed;

/* ---- writing, without the C library's help --------------------------------------------- */

/* One report at a time is made here: a program's own stack for handlers may be small. */
static atomic_flag busy = ATOMIC_FLAG_INIT;
static struct places places;
static struct {
	int file;
	size_t used;
	char text[4096];
} out;

static void
flush(void)
{
	size_t done = 0;

	while (done < out.used) {
		ssize_t n = write(out.file, out.text + done, out.used - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	out.used = 0;
}

static void
put_char(char c)
{
	if (out.used == sizeof out.text)
		flush();
	out.text[out.used++] = c;
}

static void
put(const char *text)
{
	for (; *text != '\0'; text++)
		put_char(*text);
}

static void
put_number(uint64_t value, unsigned base)
{
	char digits[24];
	unsigned n = sizeof digits - 1;

	digits[n] = '\0';
	do
		digits[--n] = "0123456789abcdef"[value % base];
	while ((value /= base) != 0);
	put(base == 16 ? "0x" : "");
	put(digits + n);
}

static void
put_offset(uint64_t address, uint64_t ptr)
{
	put(address >= ptr ? "+" : "-");
	put_number(address >= ptr ? address - ptr : ptr - address, 10);
}

/* A path in JSON; as in report_json.c. */
static void
put_quoted(const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\')
			put_char('\\');
		if (c >= 0x20 && c < 0x7f) {
			put_char((char)c);
			continue;
		}
		put("\\u00");
		put_char("0123456789abcdef"[c >> 4]);
		put_char("0123456789abcdef"[c & 15]);
	}
}

/* "0x7f..", "0x7f.. (/usr/bin/program+0x1234)" */
static void
put_place(const struct place *place, void (*put_path)(const char *path))
{
	put_number(place->address, 16);
	if (place->file == NULL)
		return;
	put(" (");
	put_path(place->file);
	put("+");
	put_number(place->offset, 16);
	put(")");
}

/* ---- what was hit ---------------------------------------------------------------------- */

static const char *
access_of(const void *context)
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

/* Of the instruction; 0: not known here. */
static uint64_t
pc_of(const void *context)
{
	const ucontext_t *ucontext = context;

#if defined(__x86_64__)
	return (uint64_t)ucontext->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return ucontext->uc_mcontext.pc;
#else
	(void)ucontext;
	return 0;
#endif
}

/* An access, and its part of `places`: what made it first, then the stacks of the block, from `alloc` and
 * `free` on. */
struct fault {
	uint64_t address, pc;
	const char *access;
	const struct fault_slot *slot;
	uint32_t alloc, free;
};

static const char *
kind_of(const struct fault *fault)
{
	if (atomic_load(&fault->slot->freed))
		return "access-after-free";
	return fault->address < atomic_load(&fault->slot->ptr) ? "oob-access-before" : "oob-access-after";
}

static void
add_stack(struct soma_backend *g, uint32_t id)
{
	void *const *frames;
	uint32_t count = stacks_frames(&g->stacks, id, &frames);

	for (uint32_t i = 0; i < count; i++)
		places_add(&places, (uint64_t)(uintptr_t)frames[i]);
}

static void
find_places(struct soma_backend *g, struct fault *fault)
{
	places.count = 0;
	places.names_used = 0;
	if (fault->pc != 0)
		places_add(&places, fault->pc);
	fault->alloc = places.count;
	add_stack(g, atomic_load(&fault->slot->alloc_stack));
	fault->free = places.count;
	add_stack(g, atomic_load(&fault->slot->free_stack));
	places_find(&places);
}

static void
put_stack(const char *name, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	put(" ");
	put(name);
	put(":\n");
	for (uint32_t i = from; i < to; i++) {
		put("    #");
		put_number(i - from, 10);
		put(" ");
		put_place(&places.at[i], put);
		put("\n");
	}
}

static void
put_head(const struct fault *fault)
{
	const struct fault_slot *slot = fault->slot;

	put("soma-guard: ERROR ");
	put(kind_of(fault));
	put("  ");
	put(fault->access);
	put(" of ");
	put_number(fault->address, 16);
	put(", offset ");
	put_offset(fault->address, atomic_load(&slot->ptr));
	put(" of block ");
	put_number(atomic_load(&slot->ptr), 16);
	put(" size ");
	put_number(atomic_load(&slot->size), 10);
	put(" gen ");
	put_number(atomic_load(&slot->generation), 10);
	put(atomic_load(&slot->freed) ? " state freed\n" : " state live\n");
}

static void
put_text(const struct fault *fault)
{
	put_stack("now", 0, fault->alloc);
	put_stack("alloc", fault->alloc, fault->free);
	put_stack("free", fault->free, places.count);
	put(" found by: fault (SIGSEGV), tid ");
	put_number((uint64_t)syscall(SYS_gettid), 10);
	put("\n");
}

static void
put_json_stack(const char *name, uint32_t from, uint32_t to)
{
	if (from == to)
		return;
	put(",\"");
	put(name);
	put("\":{\"stack\":[");
	for (uint32_t i = from; i < to; i++) {
		put(i == from ? "{\"pc\":\"" : ",{\"pc\":\"");
		put_number(places.at[i].address, 16);
		put("\",\"name\":\"");
		put_place(&places.at[i], put_quoted);
		put("\"}");
	}
	put("]}");
}

static void
put_json(const struct fault *fault)
{
	put("{\"guard\":\"soma\",\"severity\":\"error\",\"kind\":\"");
	put(kind_of(fault));
	put("\",\"access\":\"");
	put(fault->access);
	put("\",\"address\":\"");
	put_number(fault->address, 16);
	put("\",\"ptr\":\"");
	put_number(atomic_load(&fault->slot->ptr), 16);
	put("\",\"size\":");
	put_number(atomic_load(&fault->slot->size), 10);
	put(",\"generation\":");
	put_number(atomic_load(&fault->slot->generation), 10);
	put_json_stack("now", 0, fault->alloc);
	put_json_stack("alloc", fault->alloc, fault->free);
	put_json_stack("free", fault->free, places.count);
	put("}\n");
}

/* Whoever is in here comes to an end soon, as it calls nothing that waits for others.  What matters most is told
 * first: in a sandbox that ends whoever opens a file it is all there is. */
static void
tell(struct soma_backend *g, struct fault *fault)
{
	while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
		sched_yield();
	out.file = g->reporter.output;
	put_head(fault);
	flush();
	find_places(g, fault);
	put_text(fault);
	flush();
	out.file = g->reporter.json;
	if (out.file >= 0) {
		put_json(fault);
		flush();
	}
	atomic_flag_clear_explicit(&busy, memory_order_release);
}

static bool
explain(struct soma_backend *g, uint64_t address, const void *context)
{
	uint32_t count = atomic_load(&g->mapped.slot_count);

	for (uint32_t i = 0; i < count; i++) {
		struct fault_slot *chunk = atomic_load(&g->mapped.chunks[i / FAULT_SLOTS]);
		const struct fault_slot *slot = &chunk[i % FAULT_SLOTS];
		uint64_t range = atomic_load(&slot->range);
		if (range == 0 || address < range || address - range >= atomic_load(&slot->range_size))
			continue;
		tell(g, &(struct fault){ .address = address,
					 .pc = pc_of(context),
					 .access = access_of(context),
					 .slot = slot });
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
	int saved = errno, cancel;

	/* A thread that is to be cancelled would be so at the first write, and nobody else could report then. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (uint32_t i = 0; info->si_code > 0 && i < GUARDS_MAX; i++) {
		struct soma_backend *g = atomic_load(&guards[i]);
		if (g != NULL && !guard_is_idle(g) && explain(g, (uint64_t)(uintptr_t)info->si_addr, context))
			break;
	}
	pthread_setcancelstate(cancel, NULL);
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
