/* SPDX-License-Identifier: Apache-2.0 */
/* Values in JSON, the same in every report. */
#ifndef SOMA_TOOLS_REPORT_VALUES_H
#define SOMA_TOOLS_REPORT_VALUES_H

#include <jansson.h>
#include <stdint.h>

/* JSON integers of jansson are signed; a value beyond them is one that no real trace has, and is given as
 * the largest. */
json_t *report_number(uint64_t value);

/* Addresses and streams are names, not quantities: readers of JSON round above 2^53. */
json_t *report_address(uint64_t value);

/* null for REPLAY_AT_START. */
json_t *report_event(uint64_t index);

struct replay_oom;
struct replay_recorded;

/* What the trace says failed, or null. */
json_t *report_recorded(const struct replay_recorded *recorded);

/* Where memory ran out; null: it did not. */
json_t *report_oom(const struct replay_oom *oom);

/* The object owns the value, or it is given back. */
void report_put(json_t *object, const char *key, json_t *value);

#endif
