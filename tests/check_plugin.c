/* SPDX-License-Identifier: Apache-2.0 */
/* lib/plugin: which modules are found, loaded and refused, and what is said of it. */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/plugin/plugin.h"
#include "tests/said.h"

static enum soma_status
load(const char *name)
{
	const struct soma__plugin *plugin = NULL;
	char path[4096];

	snprintf(path, sizeof path, MODULES_FOLDER "/%s.so", name);
	enum soma_status status = soma__plugin_load(path, &plugin);
	ck_assert_int_eq(plugin != NULL, status == SOMA_STATUS_OK);
	return status;
}

START_TEST(a_module_of_another_interface_is_refused_naming_both_numbers)
{
	ck_assert_int_eq(load("wrong_abi"), SOMA_STATUS_ABI);
	assert_said("interface 8", "interface 1");
	assert_said(MODULES_FOLDER "/wrong_abi.so: ", "");
}
END_TEST

START_TEST(short_tables_are_refused_with_their_sizes)
{
	ck_assert_int_eq(load("short_module"), SOMA_STATUS_ABI);
	assert_said("module table", "16 bytes");
	ck_assert_int_eq(load("short_ops"), SOMA_STATUS_ABI);
	assert_said("table of ops", "40 bytes");
	ck_assert_int_eq(load("odd_ops"), SOMA_STATUS_ABI);
	assert_said("table of ops", "whole pointers");
	ck_assert_int_eq(load("null_ops"), SOMA_STATUS_ABI);
	assert_said("ops", "NULL");
}
END_TEST

START_TEST(a_missing_mandatory_op_is_named)
{
	ck_assert_int_eq(load("no_alloc"), SOMA_STATUS_ABI);
	assert_said("mandatory", "`alloc`");
}
END_TEST

START_TEST(half_a_group_is_refused_naming_what_is_there_and_what_is_not)
{
	ck_assert_int_eq(load("half_group"), SOMA_STATUS_ABI);
	assert_said("`event_record`", "`stream_create`");
	assert_said("streams and events", "all or nothing");
}
END_TEST

START_TEST(a_shared_object_that_is_no_backend_is_refused)
{
	ck_assert_int_eq(load("no_symbol"), SOMA_STATUS_ABI);
	assert_said("`soma_backend_module`", "not a backend");
}
END_TEST

START_TEST(an_unresolved_symbol_is_told_in_the_loaders_words)
{
	ck_assert_int_eq(load("unresolved"), SOMA_STATUS_IO);
	assert_said("loader", "a_function_that_nobody_has");
}
END_TEST

START_TEST(a_module_under_anothers_name_is_refused)
{
	ck_assert_int_eq(load("wrong_name"), SOMA_STATUS_ABI);
	assert_said("\"another\"", "another.so");
}
END_TEST

START_TEST(an_option_without_a_text_is_refused)
{
	ck_assert_int_eq(load("no_doc"), SOMA_STATUS_ABI);
	assert_said("question", "text");
}
END_TEST

/* ---- files that are no modules ------------------------------------------------- */

static void
write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

static enum soma_status
load_path(const char *path)
{
	const struct soma__plugin *plugin;

	return soma__plugin_load(path, &plugin);
}

START_TEST(files_that_are_no_modules_are_refused)
{
	char folder[] = "/tmp/check_plugin.XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
	ck_assert_int_eq(load_path("./none.so"), SOMA_STATUS_NOT_FOUND);
	assert_said("./none.so: ", "no such file");
	write_file("text.so", "this is no ELF file\n");
	ck_assert_int_eq(load_path("./text.so"), SOMA_STATUS_IO);
	assert_said("./text.so: ", "not an ELF file");
	write_file("empty.so", "");
	ck_assert_int_eq(load_path("./empty.so"), SOMA_STATUS_IO);
	assert_said("./empty.so: ", "not an ELF file");
	write_file("cut.so", "\177ELF");
	ck_assert_int_eq(load_path("./cut.so"), SOMA_STATUS_IO);
	assert_said("./cut.so: ", "loader");
	ck_assert_int_eq(mkdir("folder.so", 0755), 0);
	ck_assert_int_eq(load_path("./folder.so"), SOMA_STATUS_IO);
	assert_said("./folder.so: ", "directory");
	ck_assert_int_eq(mkfifo("pipe.so", 0644), 0);
	ck_assert_int_eq(load_path("./pipe.so"), SOMA_STATUS_IO);
	assert_said("./pipe.so: ", "not a file");
	write_file("odd name.so", "\177ELF");
	ck_assert_int_eq(load_path("./odd name.so"), SOMA_STATUS_INVALID_VALUE);
	assert_said("./odd name.so: ", "NAME.so");
	unlink("text.so"), unlink("empty.so"), unlink("cut.so"), unlink("pipe.so"), unlink("odd name.so");
	rmdir("folder.so");
	rmdir(folder);
}
END_TEST

START_TEST(a_file_that_may_not_be_read_is_refused)
{
	char folder[] = "/tmp/check_plugin.XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chmod(folder, 0755), 0);
	ck_assert_int_eq(chdir(folder), 0);
	write_file("closed.so", "\177ELF");
	ck_assert_int_eq(chmod("closed.so", 0), 0);
	/* For root nothing is closed; somebody else's rights are enough for this. */
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	ck_assert_int_eq(load_path("./closed.so"), SOMA_STATUS_IO);
	assert_said("./closed.so: ", "Permission denied");
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
	unlink("closed.so");
	rmdir(folder);
}
END_TEST

/* ---- good ones ------------------------------------------------------------------- */

START_TEST(an_older_module_is_whole_with_zeros)
{
	const struct soma__plugin *plugin;

	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "older", &plugin), SOMA_STATUS_OK);
	ck_assert_str_eq(plugin->module.name, "older");
	ck_assert_ptr_null(plugin->module.options);
	ck_assert_ptr_null(plugin->ops.stream_create);
	ck_assert_uint_eq(plugin->ops.size, sizeof plugin->ops);
	ck_assert_uint_eq(plugin->groups, 0);
}
END_TEST

START_TEST(a_newer_module_is_read_as_far_as_it_is_known)
{
	const struct soma__plugin *plugin;

	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "newer", &plugin), SOMA_STATUS_OK);
	ck_assert_uint_eq(plugin->ops.size, sizeof plugin->ops);
}
END_TEST

static void *
find_plain(void *out)
{
	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "plain", out), SOMA_STATUS_OK);
	return NULL;
}

START_TEST(a_module_is_loaded_once_however_often_and_by_whom)
{
	const struct soma__plugin *plugins[4], *again;
	char link[] = "/tmp/check_plugin.XXXXXX", path[64];
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, find_plain, &plugins[i]), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	for (int i = 1; i < 4; i++)
		ck_assert_ptr_eq(plugins[i], plugins[0]);
	ck_assert_ptr_nonnull(mkdtemp(link));
	snprintf(path, sizeof path, "%s/plain.so", link);
	ck_assert_int_eq(symlink(MODULES_FOLDER "/plain.so", path), 0);
	ck_assert_int_eq(soma__plugin_load(path, &again), SOMA_STATUS_OK);
	ck_assert_ptr_eq(again, plugins[0]);
	unlink(path);
	snprintf(path, sizeof path, "%s/fancy.so", link);
	ck_assert_int_eq(symlink(MODULES_FOLDER "/plain.so", path), 0);
	ck_assert_int_eq(soma__plugin_load(path, &again), SOMA_STATUS_ABI);
	assert_said("\"plain\"", "fancy.so: ");
	unlink(path);
	rmdir(link);
}
END_TEST

/* ---- finding ----------------------------------------------------------------------- */

START_TEST(folders_are_searched_in_order_and_a_bad_module_hides_a_good_one)
{
	const struct soma__plugin *plugin = NULL;
	char folder[] = "/tmp/check_plugin.XXXXXX", search[4096], path[64];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(search, sizeof search, ":/nowhere::%s:%s", folder, MODULES_FOLDER);
	ck_assert_int_eq(soma__plugin_find(search, "plain", &plugin), SOMA_STATUS_OK);
	snprintf(path, sizeof path, "%s/plain.so", folder);
	write_file(path, "bad");
	ck_assert_int_eq(soma__plugin_find(search, "plain", &plugin), SOMA_STATUS_IO);
	assert_said(path, "not an ELF file");
	unlink(path);
	rmdir(folder);
}
END_TEST

START_TEST(a_name_that_is_near_another_ones_is_answered_with_that)
{
	const struct soma__plugin *plugin;
	char near[64];

	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "palin", &plugin), SOMA_STATUS_NOT_FOUND);
	assert_said("there is no backend \"palin\": no palin.so in " MODULES_FOLDER,
		    "; did you mean 'plain'?");
	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "atuo", &plugin), SOMA_STATUS_NOT_FOUND);
	assert_said("; did you mean 'auto'?", "");
	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "unheard-of", &plugin), SOMA_STATUS_NOT_FOUND);
	ck_assert_ptr_null(strstr(soma_error_last()->text, "did you mean"));
	ck_assert(!soma__plugin_near("/nowhere", "plain", near));
	ck_assert(soma__plugin_near("/nowhere:" MODULES_FOLDER, "plian", near));
	ck_assert_str_eq(near, "plain");
}
END_TEST

START_TEST(the_environments_folders_come_after_the_named_ones)
{
	const struct soma__plugin *plugin;

	ck_assert_int_eq(unsetenv("SOMA_BACKEND_PATH"), 0);
	ck_assert_int_eq(soma__plugin_find(NULL, "plain", &plugin), SOMA_STATUS_NOT_FOUND);
	ck_assert_int_eq(setenv("SOMA_BACKEND_PATH", "/nowhere:" MODULES_FOLDER, 1), 0);
	ck_assert_int_eq(soma__plugin_find("/also/nowhere", "plain", &plugin), SOMA_STATUS_OK);
	ck_assert_int_eq(soma__plugin_find("/also/nowhere", "fancy", &plugin), SOMA_STATUS_NOT_FOUND);
	assert_said("\"fancy\"", "/also/nowhere, /nowhere, ");
}
END_TEST

START_TEST(a_name_with_a_slash_is_no_name)
{
	const struct soma__plugin *plugin;

	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "../.libs/plain", &plugin),
			 SOMA_STATUS_INVALID_VALUE);
	assert_said("../.libs/plain", "letters");
	ck_assert_int_eq(soma__plugin_find(MODULES_FOLDER, "", &plugin), SOMA_STATUS_INVALID_VALUE);
}
END_TEST

/* ---- listing ------------------------------------------------------------------------ */

struct listed {
	int count, usable, hidden;
	char text[8192];
};

static void
list_one(void *context, const struct soma__plugin_seen *seen)
{
	struct listed *listed = context;
	size_t length = strlen(listed->text);

	listed->count++;
	listed->hidden += seen->hidden;
	listed->usable += seen->reason == NULL;
	ck_assert_int_eq(seen->info != NULL, seen->reason == NULL && seen->plugin->module.wraps == 0);
	snprintf(listed->text + length, sizeof listed->text - length, "%s: %s\n", seen->name,
		 seen->reason == NULL ? "usable" : seen->reason);
}

START_TEST(a_listing_has_every_module_with_the_reason_against_it)
{
	static struct listed listed;

	ck_assert_int_eq(unsetenv("SOMA_BACKEND_PATH"), 0);
	ck_assert_int_eq(
		soma__plugin_list(MODULES_FOLDER ":" AUTO_FOLDER ":" MODULES_FOLDER, list_one, &listed),
		SOMA_STATUS_OK);
	ck_assert_int_ge(listed.count, 2 * 19 + 2);
	ck_assert_int_ge(listed.hidden, 19);
	const char *expected[] = { "plain: usable",
				   "around: usable",
				   "older: usable",
				   "sync: usable",
				   "async: backend async: earlier work failed: the device has no pools",
				   "no_alloc: " MODULES_FOLDER "/no_alloc.so: the mandatory op",
				   "silent: backend silent: it cannot be opened and does not say why",
				   "query_fails: backend query_fails: no answer",
				   "low_alignment: backend low_alignment: it aligns blocks to 64 bytes" };
	for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++)
		ck_assert_msg(strstr(listed.text, expected[i]) != NULL, "no \"%s\" in\n%s", expected[i],
			      listed.text);
}
END_TEST

#ifndef SOMA_SANITIZERS /* which do not work in set-user-id programs */
/* ---- set-user-id ------------------------------------------------------------------------ */

static int
run_probe(const char *path)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		setenv("SOMA_BACKEND_PATH", MODULES_FOLDER, 1);
		execl(path, path, "plain", (char *)NULL);
		_exit(99);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

START_TEST(the_environments_folders_are_ignored_by_a_set_user_id_program)
{
	char folder[] = "/tmp/check_plugin.XXXXXX", path[64], command[4300];

	/* Only root can make such a program. */
	if (geteuid() != 0)
		return;
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chmod(folder, 0755), 0);
	snprintf(path, sizeof path, "%s/probe", folder);
	snprintf(command, sizeof command, "cp %s %s", PROBE, path);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(run_probe(path), 0);
	ck_assert_int_eq(chown(path, 65534, 65534), 0);
	ck_assert_int_eq(chmod(path, 04755), 0);
	struct statvfs file_system;
	ck_assert_int_eq(statvfs(path, &file_system), 0);
	if ((file_system.f_flag & ST_NOSUID) == 0)
		ck_assert_int_eq(run_probe(path), 10 + SOMA_STATUS_NOT_FOUND);
	unlink(path);
	rmdir(folder);
}
END_TEST

#endif

UNIT_MAIN("plugin", a_module_of_another_interface_is_refused_naming_both_numbers,
	  short_tables_are_refused_with_their_sizes, a_missing_mandatory_op_is_named,
	  half_a_group_is_refused_naming_what_is_there_and_what_is_not,
	  a_shared_object_that_is_no_backend_is_refused, an_unresolved_symbol_is_told_in_the_loaders_words,
	  a_module_under_anothers_name_is_refused, an_option_without_a_text_is_refused,
	  files_that_are_no_modules_are_refused, a_file_that_may_not_be_read_is_refused,
	  an_older_module_is_whole_with_zeros, a_newer_module_is_read_as_far_as_it_is_known,
	  a_module_is_loaded_once_however_often_and_by_whom,
	  folders_are_searched_in_order_and_a_bad_module_hides_a_good_one,
	  a_name_that_is_near_another_ones_is_answered_with_that,
	  the_environments_folders_come_after_the_named_ones, a_name_with_a_slash_is_no_name,
#ifndef SOMA_SANITIZERS
	  the_environments_folders_are_ignored_by_a_set_user_id_program,
#endif
	  a_listing_has_every_module_with_the_reason_against_it)
