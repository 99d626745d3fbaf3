/* SPDX-License-Identifier: Apache-2.0 */
/* Values in JSON; see the header. */
#include "tools/report/values.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/engine/engine.h"

json_t *
report_number(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *
report_address(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof text, "0x%" PRIx64, value);
	return json_string(text);
}

json_t *
report_event(uint64_t index)
{
	return index == REPLAY_AT_START ? json_null() : report_number(index);
}

json_t *
report_oom(const struct replay_oom *oom)
{
	json_t *object;

	if (!oom->happened)
		return json_null();
	object = json_object();
	report_put(object, "event", report_event(oom->event));
	report_put(object, "requested", report_number(oom->requested));
	report_put(object, "short_by", report_number(oom->short_by));
	report_put(object, "reason", json_string(replay_oom_text(oom->reason)));
	return object;
}

void
report_put(json_t *object, const char *key, json_t *value)
{
	json_object_set_new(object, key, value);
}

json_t *
report_recorded(const struct replay_recorded *recorded)
{
	json_t *object;

	if (!recorded->happened)
		return json_null();
	object = json_object();
	report_put(object, "event", report_number(recorded->event));
	report_put(object, "requested", report_number(recorded->requested));
	report_put(object, "count", report_number(recorded->count));
	report_put(object, "last_event", report_number(recorded->last_event));
	report_put(object, "last_requested", report_number(recorded->last_requested));
	return object;
}
