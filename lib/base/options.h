/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration strings, "key=value,key=value", read into a struct by a table.
 *
 * A table is an array of struct soma__option ended by a NULL name.  It is the one
 * place that knows an option: parsing, defaults and the printed table come from it.
 * The functions here hold no state; a config belongs to its caller.
 *
 *   static const struct soma__option table[] = {
 *           { "budget", "0", "bytes at most; 0: unlimited", offsetof(struct conf, budget), soma__option_size },
 *           { 0 },
 *   };
 */
#ifndef SOMA_LIB_BASE_OPTIONS_H
#define SOMA_LIB_BASE_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

#include <soma/status.h>

struct soma__option;

/*
 * Reads all of `text` into the option's field.  On failure the field is as before and
 * an error is recorded whose text says what was expected, and not where: the caller
 * adds that.
 */
typedef enum soma_status soma__option_parser(const struct soma__option *option, const char *text,
					     void *field);

struct soma__option {
	const char *name;
	const char *default_text; /* must parse; NULL: the field starts as zero */
	const char *doc;          /* one line, for the printed table */
	size_t offset;            /* of the field in the config */
	soma__option_parser *parse;
	const char *const *choices; /* of soma__option_choice; ended by NULL */
};

soma__option_parser soma__option_bool;     /* bool: yes, no, on, off, true, false, 1, 0 */
soma__option_parser soma__option_u32;      /* uint32_t, decimal */
soma__option_parser soma__option_u64;      /* uint64_t, decimal */
soma__option_parser soma__option_size;     /* uint64_t, as soma__size_parse() */
soma__option_parser soma__option_fraction; /* double, 0 to 1: 0.9 or 90% */
soma__option_parser soma__option_choice;   /* unsigned: the index in `choices` */
soma__option_parser soma__option_string;   /* char *, allocated; see soma__config_fini() */
soma__option_parser soma__option_pattern;  /* the same; a % only as %d, %p or %% */

/* Sets every field to its default.  The config's old contents are not looked at. */
enum soma_status soma__config_init(const struct soma__option *table, void *config);

/* Frees the strings and leaves them NULL. */
void soma__config_fini(const struct soma__option *table, void *config);

/*
 * Applies a configuration string on top of what the config holds.  `source` names the
 * string in errors ("SOMA_CONF").  SOMA_STATUS_INVALID_VALUE for an unknown key (the
 * text names a valid one that is near, if there is), a key given twice, a missing "=" (a word alone is
 * taken for a value of the table's first option in the text) or a value that does not parse; the text says at which character.  Fields before the
 * error have been set.  An empty string sets nothing.
 */
enum soma_status soma__config_parse(const struct soma__option *table, const char *source, const char *text,
				    void *config);

/* Takes options that the table does not have and that have a dot in their name ("guard.mode"). */
struct soma__option_others {
	enum soma_status (*take)(void *context, const char *key, const char *value);
	void *context;
};

/* The same; `others` may be NULL.  Keys that are longer than a name can be are not given to it. */
enum soma_status soma__config_parse_with(const struct soma__option *table, const char *source,
					 const char *text, void *config,
					 const struct soma__option_others *others);

/* At which character of a configuration string the key is given; 0: it is not. */
size_t soma__config_place(const char *text, const char *key);

/* The table for people: name, default, what it means; one option a line. */
void soma__config_print(const struct soma__option *table, FILE *out);

/* $SOMA_CONF, or NULL; NULL too in a set-user-id process. */
const char *soma__config_environment(void);

#endif
