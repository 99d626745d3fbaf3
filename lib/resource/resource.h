/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A resource, as the parts of lib/resource see it: one interface, stacked by `next`.
 *
 * A decorator does its part and calls the next one's op; ops that it leaves NULL are the next one's business
 * and are forwarded here.  What is told about a block's end goes through the decorators that
 * the block came in by (record->via), whoever frees it.
 */
#ifndef SOMA_LIB_RESOURCE_RESOURCE_H
#define SOMA_LIB_RESOURCE_RESOURCE_H

#include <soma/resource.h>

#include "lib/resource/account.h"
#include "lib/resource/ledger.h"

struct soma__terminal;

/* A request on its way down, and what comes back. */
struct soma__call {
	struct soma_resource *via;
	uint64_t bytes;
	uint64_t alignment;
	uint64_t stream;
	uint64_t pressure;
	uint32_t tag;
	unsigned index;                /* the calling thread's */
	bool prepaid;                  /* by a reservation, from tenant and domain */
	bool hopeless;                 /* above a limit: nothing that could be freed helps */
	struct soma__account *tenant;  /* the outermost budget that counts what comes through it */
	struct soma__account *domain;  /* charged: the budgets in the ledger */
	struct soma__account *refused; /* by whom */
	struct soma__record *record;   /* made; nobody else knows it yet */
};

typedef enum soma_status soma__call_attempt(struct soma__call *call);

/* What a trace is told. */
enum soma__moment {
	SOMA__ALLOCATED,
	SOMA__FREEING,   /* about to be freed */
	SOMA__RESTORED,  /* ... and it failed: still live */
	SOMA__COMPLETED, /* gone, after having been retired */
};

struct soma__used {
	uint64_t ptr;
	uint64_t bytes;
	uint64_t generation;
	uint64_t stream;
	enum soma_access access;
	bool part; /* parts.h: neither the backend nor a trace is told */
};

/* What the stack itself does with events; by their numbers. */
enum soma__edge {
	SOMA__RECORDED, /* on the stream */
	SOMA__WAITED,   /* by the stream */
	SOMA__SEEN,     /* by the host: it is done */
};

struct soma__resource_ops {
	enum soma_status (*materialize)(struct soma_resource *resource, struct soma__call *call);
	/* The last reference is gone; blocks that came in by it may be there yet. */
	void (*close)(struct soma_resource *resource);
	/* Nothing refers to it any more. */
	void (*destroy)(struct soma_resource *resource);

	/* Of observers. */
	void (*block)(struct soma_resource *resource, enum soma__moment moment,
		      const struct soma__record *record, bool deferred);
	void (*failed)(struct soma_resource *resource, const struct soma__call *call);
	void (*used)(struct soma_resource *resource, const struct soma__used *used);
	void (*synchronized)(struct soma_resource *resource, uint64_t stream);
	void (*ordered)(struct soma_resource *resource, enum soma__edge edge, uint64_t stream,
			uint64_t event);
};

struct soma_resource {
	const struct soma__resource_ops *ops;
	struct soma_resource *next; /* NULL: the terminal */
	struct soma__terminal *terminal;
	struct soma__account *tenant;   /* charged by what comes in here; NULL: only the ledger's budgets */
	struct soma__account *budget;   /* of the outermost budget at or under; NULL */
	struct soma_resource *observer; /* the nearest trace at or under; NULL */
	_Atomic uint32_t references;    /* by users and by open decorators above */
	bool closed;                    /* terminal->stack */
	bool charged;                  /* the same: a budget in the ledger, and blocks may be charged to it */
	struct soma_resource *sibling; /* the same; in the terminal's list */
	soma_pressure_callback *callback; /* the same */
	void *callback_context;
};

/* Starts a decorator around `inner` with one reference, and keeps inner. */
void soma__resource_init(struct soma_resource *resource, const struct soma__resource_ops *ops,
			 struct soma_resource *inner);

/* Destroys the closed decorators that nothing refers to. */
void soma__resource_sweep(struct soma__terminal *terminal);

static inline enum soma_status
soma__resource_next(struct soma_resource *resource, struct soma__call *call)
{
	return resource->next->ops->materialize(resource->next, call);
}

/* What stands on a stack for as long as its owner has it: end(any resource of the stack) is called when the owner is
 * done with that.  One function a stack, which may be told again. */
typedef void soma__resource_ending(struct soma_resource *resource);
void soma__resource_at_end(struct soma_resource *resource, soma__resource_ending *end);

/* By the owner, before it releases the stack. */
void soma__resource_end(struct soma_resource *resource);

/* Tells the traces that the block came in by. */
static inline void
soma__resource_tell(struct soma_resource *via, enum soma__moment moment, const struct soma__record *record,
		    bool deferred)
{
	for (struct soma_resource *o = via->observer; __builtin_expect(o != NULL, 0); o = o->next->observer)
		o->ops->block(o, moment, record, deferred);
}

/* Told before anybody else can see a record's event, and after a wait is queued. */
static inline void
soma__resource_tell_order(struct soma_resource *resource, enum soma__edge edge, uint64_t stream,
			  uint64_t event)
{
	for (struct soma_resource *o = resource->observer; __builtin_expect(o != NULL, 0);
	     o = o->next->observer)
		o->ops->ordered(o, edge, stream, event);
}

static inline void
soma__resource_tell_synchronized(struct soma_resource *resource, uint64_t stream)
{
	for (struct soma_resource *o = resource->observer; __builtin_expect(o != NULL, 0);
	     o = o->next->observer)
		o->ops->synchronized(o, stream);
}

/* attempt(call) failed with `status`: if memory or a budget is short, does what can be done about it, and
 * tries again after each step. */
enum soma_status soma__pressure_relieve(struct soma__call *call, soma__call_attempt *attempt,
					enum soma_status status);

/* Whether this thread is within an owner's callback: then it must not wait for others that allocate. */
bool soma__pressure_inside(void);

/* Runs a request; on success the block. */
enum soma_status soma__resource_run(struct soma__call *call, struct soma_block *block);

/* Records that a struct of the caller's is too small. */
enum soma_status soma__resource_bad_size(const char *what, size_t size, size_t expected);

/* What a request says, checked. */
enum soma_status soma__resource_call(struct soma_resource *resource, const struct soma_request *request,
				     struct soma__call *call);

/* Charges call->bytes to tenant and domain, or says by whom it was refused. */
enum soma_status soma__accounts_take(struct soma__account *tenant, struct soma__account *domain,
				     struct soma__call *call);
/* Takes back what was charged from `account` on, up to `until`; NULL: up to the last parent. */
void soma__accounts_undo(struct soma__account *account, const struct soma__account *until,
			 struct soma__call *call);

#endif
