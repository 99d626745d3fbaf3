/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration strings: splitting, finding keys, saying where an error is.  What a
 * value may be is in option_values.c.  No state, no locks.
 */
#include "config.h"

#include "lib/base/options.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"

#define VALUE_MAX 4096
#define KEY_MAX 128

/* One "key=value" of a configuration string. */
struct item {
	const char *source; /* the string's name */
	const char *text;   /* the whole string */
	const char *key;
	size_t key_length;
	const char *value; /* NULL: there is no "=" */
	size_t value_length;
};

static void *
field_of(const struct soma__option *option, void *config)
{
	return (char *)config + option->offset;
}

/* Counted from 1, as editors do. */
static size_t
character(const struct item *item, const char *at)
{
	return (size_t)(at - item->text) + 1;
}

static bool
has_key(const struct item *item, const char *name)
{
	return strlen(name) == item->key_length && memcmp(name, item->key, item->key_length) == 0;
}

static const struct soma__option *
find_option(const struct soma__option *table, const struct item *item)
{
	for (const struct soma__option *option = table; option->name != NULL; option++)
		if (has_key(item, option->name))
			return option;
	return NULL;
}

static const char *
option_name_at(const void *table, size_t index)
{
	return ((const struct soma__option *)table)[index].name;
}

/* What is recorded about the value, with the place put before it. */
static enum soma_status
place_error(const struct item *item, const struct soma__option *option, enum soma_status status)
{
	char what[256];

	snprintf(what, sizeof what, "%s", soma_error_last()->text);
	return soma__error_text(status, "%s, character %zu: %s: %s", item->source,
				character(item, item->value), option->name, what);
}

static enum soma_status
copy_value(const struct item *item, char value[VALUE_MAX])
{
	if (item->value_length >= VALUE_MAX)
		return soma__error_text(
			SOMA_STATUS_INVALID_VALUE,
			"%s, character %zu: %.*s: a value of %zu bytes is too long (at most %d)",
			item->source, character(item, item->value), (int)item->key_length, item->key,
			item->value_length, VALUE_MAX - 1);
	memcpy(value, item->value, item->value_length);
	value[item->value_length] = '\0';
	return SOMA_STATUS_OK;
}

static enum soma_status
apply(const struct soma__option *option, const struct item *item, void *config)
{
	char value[VALUE_MAX];
	enum soma_status status = copy_value(item, value);

	if (status != SOMA_STATUS_OK)
		return status;
	status = option->parse(option, value, field_of(option, config));
	return status == SOMA_STATUS_OK ? status : place_error(item, option, status);
}

static bool
is_others(const struct soma__option_others *others, const struct item *item)
{
	return others != NULL && item->key_length < KEY_MAX &&
	       memchr(item->key, '.', item->key_length) != NULL;
}

static enum soma_status
give_others(const struct soma__option_others *others, const struct item *item)
{
	char key[KEY_MAX], value[VALUE_MAX];
	enum soma_status status = copy_value(item, value);

	memcpy(key, item->key, item->key_length);
	key[item->key_length] = '\0';
	return status == SOMA_STATUS_OK ? others->take(others->context, key, value) : status;
}

/* The item at `at`, which ends at a comma or with the string. */
static struct item
item_at(const char *source, const char *text, const char *at)
{
	size_t length = strcspn(at, ",");
	const char *equals = memchr(at, '=', length);
	struct item item = { .source = source, .text = text, .key = at, .key_length = length };

	if (equals != NULL) {
		item.key_length = (size_t)(equals - at);
		item.value = equals + 1;
		item.value_length = length - item.key_length - 1;
	}
	return item;
}

static bool
is_given_before(const struct item *item)
{
	for (const char *at = item->text; at < item->key; at += strcspn(at, ",") + 1) {
		struct item before = item_at(item->source, item->text, at);
		if (before.key_length == item->key_length &&
		    memcmp(before.key, item->key, item->key_length) == 0)
			return true;
	}
	return false;
}

static enum soma_status
no_such_option(const struct soma__option *table, const struct item *item, int shown)
{
	const char *near = soma__name_near(item->key, item->key_length, option_name_at, table);

	if (item->value == NULL && near == NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"%s, character %zu: a key=value was expected, such as %s=%.*s",
					item->source, character(item, item->key), table->name, shown,
					item->key);
	return soma__error_text(SOMA_STATUS_INVALID_VALUE,
				"%s, character %zu: there is no option \"%.*s\"; %s%s%s", item->source,
				character(item, item->key), shown, item->key,
				near != NULL ? "the nearest is \"" : "see soma.conf(5)",
				near != NULL ? near : "", near != NULL ? "\"" : "");
}

static enum soma_status
parse_item(const struct soma__option *table, const struct item *item, void *config,
	   const struct soma__option_others *others)
{
	const struct soma__option *option = find_option(table, item);
	size_t place = character(item, item->key);
	int shown = item->key_length < 64 ? (int)item->key_length : 64;

	if (item->key_length == 0)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"%s, character %zu: a key=value was expected here", item->source,
					place);
	if (option == NULL && !is_others(others, item))
		return no_such_option(table, item, shown);
	if (item->value == NULL)
		return soma__error_text(SOMA_STATUS_INVALID_VALUE,
					"%s, character %zu: %.*s has no value; write %.*s=VALUE",
					item->source, place, shown, item->key, shown, item->key);
	if (is_given_before(item))
		return soma__error_text(SOMA_STATUS_INVALID_VALUE, "%s, character %zu: %.*s is given twice",
					item->source, place, shown, item->key);
	return option != NULL ? apply(option, item, config) : give_others(others, item);
}

enum soma_status
soma__config_parse_with(const struct soma__option *table, const char *source, const char *text, void *config,
			const struct soma__option_others *others)
{
	const char *at = text;

	if (*text == '\0')
		return SOMA_STATUS_OK;
	for (;;) {
		struct item item = item_at(source, text, at);
		enum soma_status status = parse_item(table, &item, config, others);
		if (status != SOMA_STATUS_OK)
			return status;
		at += strcspn(at, ",");
		if (*at++ == '\0')
			return SOMA_STATUS_OK;
	}
}

enum soma_status
soma__config_parse(const struct soma__option *table, const char *source, const char *text, void *config)
{
	return soma__config_parse_with(table, source, text, config, NULL);
}

size_t
soma__config_place(const char *text, const char *key)
{
	const char *at = text;

	for (;;) {
		struct item item = item_at("", text, at);
		if (has_key(&item, key))
			return character(&item, at);
		at += strcspn(at, ",");
		if (*at++ == '\0')
			return 0;
	}
}

static bool
is_string(const struct soma__option *option)
{
	return option->parse == soma__option_string || option->parse == soma__option_pattern;
}

/* A string's field holds a pointer even before it was first set. */
static void
clear_field(const struct soma__option *option, void *config)
{
	if (is_string(option))
		*(char **)field_of(option, config) = NULL;
}

enum soma_status
soma__config_init(const struct soma__option *table, void *config)
{
	for (const struct soma__option *option = table; option->name != NULL; option++)
		clear_field(option, config);
	for (const struct soma__option *option = table; option->name != NULL; option++) {
		if (option->default_text == NULL)
			continue;
		enum soma_status status =
			option->parse(option, option->default_text, field_of(option, config));
		if (status != SOMA_STATUS_OK) {
			soma__config_fini(table, config);
			return status;
		}
	}
	return SOMA_STATUS_OK;
}

void
soma__config_fini(const struct soma__option *table, void *config)
{
	for (const struct soma__option *option = table; option->name != NULL; option++) {
		if (is_string(option)) {
			free(*(char **)field_of(option, config));
			clear_field(option, config);
		}
	}
}

static int
column_width(const struct soma__option *table, const char *(*text)(const struct soma__option *option))
{
	size_t width = 0;

	for (const struct soma__option *option = table; option->name != NULL; option++)
		if (strlen(text(option)) > width)
			width = strlen(text(option));
	return (int)width;
}

static const char *
name_text(const struct soma__option *option)
{
	return option->name;
}

static const char *
default_text(const struct soma__option *option)
{
	return option->default_text == NULL ? "-" : option->default_text;
}

void
soma__config_print(const struct soma__option *table, FILE *out)
{
	int names = column_width(table, name_text), defaults = column_width(table, default_text);

	for (const struct soma__option *option = table; option->name != NULL; option++)
		fprintf(out, "%-*s  %-*s  %s\n", names, option->name, defaults, default_text(option),
			option->doc);
}

const char *
soma__config_environment(void)
{
	return secure_getenv("SOMA_CONF");
}
