/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls on resources, and how long resources last.
 *
 * A decorator whose last reference is gone is closed at once, and stays in memory while blocks that came in
 * by it are outstanding, because their end is told to it.  terminal->stack protects the list of decorators.
 */
#include "lib/resource/resource.h"

#include "lib/base/error.h"
#include "lib/resource/terminal.h"

/* The smallest struct that a caller may have: what came with the first version. */
#define BLOCK_SIZE sizeof(struct soma_block)

/* ---- how long they last ------------------------------------------------------------------ */

void
soma__resource_init(struct soma_resource *resource, const struct soma__resource_ops *ops,
		    struct soma_resource *inner)
{
	struct soma__terminal *terminal = inner->terminal;

	resource->ops = ops;
	resource->next = soma_resource_retain(inner);
	resource->terminal = terminal;
	resource->tenant = inner->tenant;
	resource->budget = inner->budget;
	resource->observer = inner->observer;
	atomic_init(&resource->references, 1);
	pthread_mutex_lock(&terminal->stack);
	resource->sibling = terminal->decorators;
	terminal->decorators = resource;
	pthread_mutex_unlock(&terminal->stack);
}

struct soma_resource *
soma_resource_retain(struct soma_resource *resource)
{
	if (resource != NULL)
		atomic_fetch_add_explicit(&resource->references, 1, memory_order_relaxed);
	return resource;
}

/* Under terminal->stack. */
static bool
is_referred_to(struct soma__terminal *terminal, const struct soma_resource *resource)
{
	for (const struct soma_resource *r = terminal->decorators; r != NULL; r = r->sibling)
		if (r->next == resource)
			return true;
	return !soma__records_none(&terminal->ledger, resource);
}

/* Under terminal->stack: takes one that can go off the list; NULL: none. */
static struct soma_resource *
take_closed(struct soma__terminal *terminal)
{
	for (struct soma_resource **at = &terminal->decorators; *at != NULL; at = &(*at)->sibling) {
		struct soma_resource *resource = *at;
		if (!resource->closed || resource->charged || is_referred_to(terminal, resource))
			continue;
		*at = resource->sibling;
		return resource;
	}
	return NULL;
}

void
soma__resource_sweep(struct soma__terminal *terminal)
{
	struct soma_resource *resource;

	do {
		pthread_mutex_lock(&terminal->stack);
		resource = take_closed(terminal);
		pthread_mutex_unlock(&terminal->stack);
		if (resource != NULL)
			resource->ops->destroy(resource);
	} while (resource != NULL);
}

static void
destroy_stack(struct soma__terminal *terminal)
{
	struct soma_resource *next;

	for (struct soma_resource *r = terminal->decorators; r != NULL; r = next) {
		next = r->sibling;
		r->ops->destroy(r);
	}
	terminal->base.ops->destroy(&terminal->base);
}

void
soma_resource_release(struct soma_resource *resource)
{
	while (resource != NULL &&
	       atomic_fetch_sub_explicit(&resource->references, 1, memory_order_acq_rel) == 1) {
		struct soma__terminal *terminal = resource->terminal;
		struct soma_resource *next = resource->next;
		resource->ops->close(resource);
		if (next == NULL) {
			destroy_stack(terminal);
			return;
		}
		pthread_mutex_lock(&terminal->stack);
		resource->closed = true;
		pthread_mutex_unlock(&terminal->stack);
		soma__resource_sweep(terminal);
		resource = next;
	}
}

int
soma_resource_device(const struct soma_resource *resource)
{
	return resource->terminal->device;
}

/* ---- allocation ------------------------------------------------------------------------------ */

static enum soma_status
refuse_nothing(void)
{
	return soma__fail(INVALID_VALUE, "a request for 0 bytes: expected at least 1");
}

static inline enum soma_status
check_request(const struct soma_request *request)
{
	uint64_t alignment = request->alignment;

	if (request->size != 0 && request->size < sizeof *request)
		return soma__fail(INVALID_VALUE, "a request's size field is %" PRIu64 ", expected %" PRIu64,
				  request->size, sizeof *request);
	if (request->bytes == 0)
		return refuse_nothing();
	if ((alignment & (alignment - 1)) != 0)
		return soma__fail(INVALID_VALUE, "alignment %" PRIu64 ": expected a power of two", alignment);
	if (request->tag >= SOMA_TAG_COUNT_MAX)
		return soma__fail(INVALID_VALUE, "tag %" PRIu64 ": expected one that soma_tag_intern() gave",
				  request->tag);
	return SOMA_STATUS_OK;
}

static enum soma_status
attempt_materialize(struct soma__call *call)
{
	return call->via->ops->materialize(call->via, call);
}

/* Field by field: this is on every request's way. */
static inline void
fill_call(struct soma_resource *resource, uint64_t bytes, uint64_t alignment, uint64_t stream,
	  uint64_t pressure, uint32_t tag, struct soma__call *call)
{
	call->via = resource;
	call->bytes = bytes;
	call->alignment = alignment;
	call->stream = stream;
	call->pressure = pressure;
	call->tag = tag != SOMA_TAG_NONE ? tag : soma__self.tag;
	call->index = soma__thread_index();
	call->prepaid = false;
	call->hopeless = false;
	call->tenant = NULL;
	call->domain = NULL;
	call->refused = NULL;
}

static inline enum soma_status
start_call(struct soma_resource *resource, const struct soma_request *request, struct soma__call *call)
{
	enum soma_status status = check_request(request);

	if (status == SOMA_STATUS_OK)
		fill_call(resource, request->bytes, request->alignment, request->stream, request->pressure,
			  request->tag, call);
	return status;
}

enum soma_status
soma__resource_call(struct soma_resource *resource, const struct soma_request *request,
		    struct soma__call *call)
{
	return start_call(resource, request, call);
}

static inline void
fill_block(const struct soma__call *call, struct soma_block *block)
{
	const struct soma__terminal *terminal = call->via->terminal;
	const struct soma__record *record = call->record;

	block->ptr = record->ptr;
	block->bytes = call->bytes;
	block->alignment = call->alignment != 0 ? call->alignment : terminal->alignment;
	block->stream = call->stream;
	block->id.handle = soma__record_handle(&terminal->ledger, record);
	block->id.generation = soma__record_generation(record);
	block->device = terminal->device;
	block->tag = call->tag;
	block->state = SOMA_BLOCK_LIVE;
}

enum soma_status
soma__resource_bad_size(const char *what, size_t size, size_t expected)
{
	return soma__error(SOMA_STATUS_INVALID_VALUE,
			   "%s: the size field is %" PRIu64 ", expected %" PRIu64 " or more",
			   (struct soma__error_args){ .name = what, .arg = { size, expected } });
}

static inline enum soma_status
run_call(struct soma__call *call, struct soma_block *block)
{
	enum soma_status status;

	if (__builtin_expect(block == NULL, 0))
		return soma__fail(INVALID_VALUE, "block is NULL: expected one to be filled");
	if (block->size != 0 && block->size < BLOCK_SIZE)
		return soma__resource_bad_size("a block", block->size, BLOCK_SIZE);
	status = attempt_materialize(call);
	if (__builtin_expect(status != SOMA_STATUS_OK, 0)) {
		status = soma__pressure_relieve(call, attempt_materialize, status);
		if (status != SOMA_STATUS_OK)
			return status;
	}
	fill_block(call, block);
	return SOMA_STATUS_OK;
}

enum soma_status
soma__resource_run(struct soma__call *call, struct soma_block *block)
{
	return run_call(call, block);
}

enum soma_status
soma_resource_materialize(struct soma_resource *resource, const struct soma_request *request,
			  struct soma_block *block)
{
	struct soma__call call;
	enum soma_status status;

	if (request == NULL)
		return soma__fail(INVALID_VALUE, "request is NULL: expected one");
	status = start_call(resource, request, &call);
	return status == SOMA_STATUS_OK ? run_call(&call, block) : status;
}

static inline enum soma_status
allocate(struct soma_resource *resource, uint64_t bytes, uint64_t stream, uint64_t pressure,
	 struct soma_block *block)
{
	struct soma__call call;

	if (bytes == 0)
		return refuse_nothing();
	fill_call(resource, bytes, 0, stream, pressure, SOMA_TAG_NONE, &call);
	return run_call(&call, block);
}

/* In here, and not by the one below: a guard's report has the function that the program called. */
enum soma_status
soma_resource_allocate(struct soma_resource *resource, uint64_t bytes, uint64_t stream,
		       struct soma_block *block)
{
	return allocate(resource, bytes, stream, 0, block);
}

enum soma_status
soma_resource_allocate_with_reservation_pressure(struct soma_resource *resource, uint64_t bytes,
						 uint64_t stream, uint64_t pressure, struct soma_block *block)
{
	return allocate(resource, bytes, stream, pressure, block);
}

/* ---- blocks -------------------------------------------------------------------------------------- */

enum soma_block_state
soma_resource_block_state(struct soma_resource *resource, struct soma_block_id block)
{
	struct soma__record *record = soma__record_of(&resource->terminal->ledger, block.handle);
	uint64_t word = record != NULL ? atomic_load_explicit(&record->word, memory_order_acquire) : 0;

	if (word >> SOMA__STATE_BITS != block.generation)
		return SOMA_BLOCK_FREED;
	switch ((enum soma__state)(word & SOMA__STATE_MASK)) {
	case SOMA__RECORD_LIVE:
	case SOMA__RECORD_BUSY:
		return SOMA_BLOCK_LIVE;
	case SOMA__RECORD_CLOSING:
	case SOMA__RECORD_RETIRED:
		return SOMA_BLOCK_RETIRED;
	case SOMA__RECORD_QUARANTINED:
		return SOMA_BLOCK_QUARANTINED;
	case SOMA__RECORD_FREE:
		break;
	}
	return SOMA_BLOCK_FREED;
}

enum soma_status
soma_resource_set_tag(struct soma_resource *resource, struct soma_block_id block, uint32_t tag)
{
	struct soma__ledger *ledger = &resource->terminal->ledger;
	struct soma__record *record;
	enum soma_status status;

	if (tag >= SOMA_TAG_COUNT_MAX)
		return soma__fail(INVALID_VALUE, "tag %" PRIu64 ": expected one that soma_tag_intern() gave",
				  tag);
	status = soma__record_claim(ledger, block, SOMA__RECORD_BUSY, &record);
	if (status != SOMA_STATUS_OK)
		return status;
	if (record->part) {
		soma__record_set(record, SOMA__RECORD_LIVE);
		return soma__fail(INVALID_VALUE,
				  "the block of generation %" PRIu64
				  " is part of a pool's segment, which is accounted as a whole",
				  block.generation);
	}
	soma__ledger_count_move(ledger, soma__ledger_slot(ledger, soma__thread_index()), record->bytes,
				record->tag, tag);
	record->tag = tag;
	soma__record_set(record, SOMA__RECORD_LIVE);
	return SOMA_STATUS_OK;
}

/* ---- accounts ------------------------------------------------------------------------------------- */

uint64_t
soma_resource_bytes_outstanding(struct soma_resource *resource)
{
	return soma__ledger_outstanding(&resource->terminal->ledger);
}

enum soma_status
soma_resource_ledger(struct soma_resource *resource, struct soma_ledger *ledger)
{
	if (ledger->size < sizeof *ledger)
		return soma__resource_bad_size("a ledger", ledger->size, sizeof *ledger);
	soma__ledger_sum(&resource->terminal->ledger, ledger);
	return SOMA_STATUS_OK;
}

void
soma_resource_walk_tags(struct soma_resource *resource,
			bool (*visit)(void *context, const struct soma_tag_account *account), void *context)
{
	struct soma_tag_account account;

	for (uint32_t tag = 0; tag < SOMA_TAG_COUNT_MAX; tag++) {
		soma__ledger_sum_tag(&resource->terminal->ledger, tag, &account);
		if (account.alloc_count > 0 && !visit(context, &account))
			return;
	}
}

enum soma_status
soma_resource_budget_snapshot(struct soma_resource *resource, struct soma_budget_snapshot *snapshot)
{
	struct soma__account *account = resource->budget;

	if (snapshot->size < sizeof *snapshot)
		return soma__resource_bad_size("a budget snapshot", snapshot->size, sizeof *snapshot);
	if (account == NULL)
		return soma__fail(NOT_FOUND, "there is no budget in this stack");
	snapshot->limit = account->limit;
	snapshot->reserved = soma__account_reserved(account);
	snapshot->remaining = snapshot->limit - snapshot->reserved;
	snapshot->promised = atomic_load_explicit(&account->promised, memory_order_acquire);
	return SOMA_STATUS_OK;
}

void
soma__resource_at_end(struct soma_resource *resource, soma__resource_ending *end)
{
	atomic_store_explicit(&resource->terminal->ending, end, memory_order_release);
}

void
soma__resource_end(struct soma_resource *resource)
{
	soma__resource_ending *end = atomic_load_explicit(&resource->terminal->ending, memory_order_acquire);

	if (end != NULL)
		end(resource);
}

/* A guard has its own pending frees. */
static void
reap(struct soma__terminal *terminal)
{
	(void)soma__terminal_reap(terminal);
	if (soma__terminal_can(terminal, SOMA_BACKEND_GUARD))
		(void)terminal->ops->guard_settle(terminal->self);
}

enum soma_status
soma_resource_reap_pending(struct soma_resource *resource)
{
	reap(resource->terminal);
	return SOMA_STATUS_OK;
}

enum soma_status
soma_resource_trim_to(struct soma_resource *resource, uint64_t keep)
{
	struct soma__terminal *terminal = resource->terminal;

	reap(terminal);
	if (!soma__terminal_can(terminal, SOMA_BACKEND_POOL))
		return SOMA_STATUS_OK;
	return terminal->ops->pool_trim(terminal->self, keep);
}

/* ---- streams --------------------------------------------------------------------------------------- */

enum soma_status
soma_resource_stream_create(struct soma_resource *resource, unsigned flags, uint64_t *stream)
{
	return soma__stream_create(&resource->terminal->streams, flags, NULL, stream);
}

enum soma_status
soma_resource_stream_wrap(struct soma_resource *resource, uint64_t native, uint64_t *stream)
{
	return soma__stream_create(&resource->terminal->streams, 0, &native, stream);
}

enum soma_status
soma_resource_stream_destroy(struct soma_resource *resource, uint64_t stream)
{
	return soma__stream_destroy(&resource->terminal->streams, stream);
}

enum soma_status
soma_resource_stream_synchronize(struct soma_resource *resource, uint64_t id)
{
	struct soma__terminal *terminal = resource->terminal;
	struct soma__stream *stream;
	enum soma_status status = soma__stream_open(&terminal->streams, id, &stream);

	if (status == SOMA_STATUS_OK && stream->handle != NULL)
		status = terminal->ops->stream_synchronize(terminal->self, stream->handle);
	if (status != SOMA_STATUS_OK)
		return status;
	soma__resource_tell_synchronized(resource, id);
	(void)soma__terminal_reap(terminal);
	return SOMA_STATUS_OK;
}
