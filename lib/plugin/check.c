/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what a module exports is what <soma/backend.h> says.  Reads its tables only as far
 * as they say they go, and calls nothing.
 */
#include "lib/plugin/plugin.h"

#include <stddef.h>
#include <string.h>

#include "lib/base/error.h"

/* ---- the ops ---------------------------------------------------------------- */

struct op_row {
	const char *name;
	size_t offset;
};

struct group {
	const char *name;
	uint64_t capability; /* 0: mandatory */
	const struct op_row *ops;
};

#define OP(field)                                                \
	{                                                        \
#field, offsetof(struct soma_backend_ops, field) \
	}

static const struct op_row mandatory[] = { OP(open), OP(close), OP(query), OP(alloc), OP(free), { 0 } };
static const struct op_row streams[] = { OP(stream_create),      OP(stream_default),    OP(stream_wrap),
					 OP(stream_destroy),     OP(stream_info),       OP(stream_query),
					 OP(stream_synchronize), OP(synchronize),       OP(event_create),
					 OP(event_destroy),      OP(event_record),      OP(event_wait),
					 OP(event_query),        OP(event_synchronize), { 0 } };
static const struct op_row fills[] = { OP(fill8),        OP(fill32),
				       OP(copy),         OP(copy_from_host),
				       OP(copy_to_host), OP(staging_alloc),
				       OP(staging_free), { 0 } };
static const struct op_row scans[] = { OP(scan), { 0 } };
static const struct op_row spans[] = {
	OP(span_reserve), OP(span_map), OP(span_unmap), OP(span_release), { 0 }
};
static const struct op_row pool[] = { OP(pool_get), OP(pool_set), OP(pool_trim), { 0 } };
static const struct op_row exports[] = { OP(export_pool),
					 OP(export_block),
					 OP(import_pool),
					 OP(import_block),
					 OP(import_free),
					 OP(import_close),
					 { 0 } };
static const struct op_row peers[] = { OP(peer_can_access), OP(peer_set_access), { 0 } };
static const struct op_row uses[] = { OP(block_use), OP(block_name), { 0 } };
static const struct op_row guard[] = { OP(guard_settle), OP(guard_drain),  OP(guard_scan),
				       OP(guard_stats),  OP(guard_listen), { 0 } };
static const struct op_row steps[] = { OP(stream_step), OP(stream_position), { 0 } };

static const struct group groups[] = {
	{ "streams and events", SOMA_BACKEND_STREAMS, streams },
	{ "fill and copy", SOMA_BACKEND_FILLS, fills },
	{ "scan", SOMA_BACKEND_SCANS, scans },
	{ "spans", SOMA_BACKEND_SPANS, spans },
	{ "pool", SOMA_BACKEND_POOL, pool },
	{ "export", SOMA_BACKEND_EXPORTS, exports },
	{ "peers", SOMA_BACKEND_PEERS, peers },
	{ "declared uses", SOMA_BACKEND_USES, uses },
	{ "guard", SOMA_BACKEND_GUARD, guard },
	{ "steps", SOMA_BACKEND_STEPS, steps },
	{ 0 },
};

/* Every row is a function pointer, whatever its type. */
static bool
has_op(const struct soma_backend_ops *ops, const struct op_row *row)
{
	void (*op)(void);

	memcpy(&op, (const char *)ops + row->offset, sizeof op);
	return op != NULL;
}

/* The first op that is there, or that is not; NULL: none. */
static const char *
first_op(const struct soma_backend_ops *ops, const struct op_row *rows, bool there)
{
	for (const struct op_row *row = rows; row->name != NULL; row++)
		if (has_op(ops, row) == there)
			return row->name;
	return NULL;
}

static enum soma_status
check_groups(struct soma__plugin *plugin)
{
	const struct soma_backend_ops *ops = &plugin->ops;
	const char *missing = first_op(ops, mandatory, false);

	if (missing != NULL)
		return soma__error_text(SOMA_STATUS_ABI, "the mandatory op `%s` is missing", missing);
	for (const struct group *group = groups; group->name != NULL; group++) {
		const char *there = first_op(ops, group->ops, true);
		missing = first_op(ops, group->ops, false);
		if (there != NULL && missing != NULL)
			return soma__error_text(
				SOMA_STATUS_ABI,
				"it has the op `%s` but not `%s`: the group \"%s\" is all or nothing", there,
				missing, group->name);
		if (there != NULL)
			plugin->groups |= group->capability;
	}
	return SOMA_STATUS_OK;
}

static enum soma_status
check_ops(const struct soma_backend_ops *ops, struct soma__plugin *plugin)
{
	const size_t least = offsetof(struct soma_backend_ops, free) + sizeof ops->free;

	if (ops == NULL)
		return soma__error_text(SOMA_STATUS_ABI, "its table of ops is NULL");
	if (ops->size < least || ops->size % sizeof(void *) != 0)
		return soma__error_text(
			SOMA_STATUS_ABI,
			"its table of ops says %zu bytes; at least %zu were expected, in whole pointers",
			ops->size, least);
	memcpy(&plugin->ops, ops, ops->size < sizeof plugin->ops ? ops->size : sizeof plugin->ops);
	plugin->ops.size = sizeof plugin->ops;
	plugin->module.ops = &plugin->ops;
	return check_groups(plugin);
}

/* ---- the module ---------------------------------------------------------------- */

enum soma_status
soma__plugin_check_name(const struct soma_backend_module *module, const char *file_name)
{
	if (strcmp(module->name, file_name) == 0)
		return SOMA_STATUS_OK;
	return soma__error_text(SOMA_STATUS_ABI, "it is the module \"%.63s\" and must be in %.63s.so", module->name,
				module->name);
}

static enum soma_status
check_texts(const struct soma_backend_module *module)
{
	if (module->name == NULL || module->version == NULL || module->description == NULL)
		return soma__error_text(SOMA_STATUS_ABI, "its name, version or description is NULL");
	for (const struct soma_backend_option_info *row = module->options; row != NULL && row->key != NULL;
	     row++)
		if (row->default_text == NULL || row->doc == NULL)
			return soma__error_text(SOMA_STATUS_ABI,
						"its option \"%.63s\" lacks a default or a text", row->key);
	return SOMA_STATUS_OK;
}

enum soma_status
soma__plugin_check(const void *symbol, const char *file_name, struct soma__plugin *plugin)
{
	const struct soma_backend_module *module = symbol;
	const size_t least = offsetof(struct soma_backend_module, ops) + sizeof module->ops;

	if (module->abi != SOMA_BACKEND_ABI)
		return soma__error_text(SOMA_STATUS_ABI,
					"it is built for backend interface %u; this library has interface %u",
					module->abi, SOMA_BACKEND_ABI);
	if (module->size < least)
		return soma__error_text(SOMA_STATUS_ABI,
					"its module table says %u bytes; at least %zu were expected",
					module->size, least);
	memcpy(&plugin->module, module, module->size < sizeof *module ? module->size : sizeof *module);
	enum soma_status status = check_texts(&plugin->module);
	if (status == SOMA_STATUS_OK)
		status = soma__plugin_check_name(&plugin->module, file_name);
	return status == SOMA_STATUS_OK ? check_ops(plugin->module.ops, plugin) : status;
}
