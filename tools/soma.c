/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `soma`: finds the subcommand and runs it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <soma/version.h>

#include "tools/beside.h"
#include "tools/command.h"

static int
run(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2)
		return usage_error(NULL, "expected a subcommand");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help_print_all();
		return EXIT_FINE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("soma %s\n", soma_version());
		return EXIT_FINE;
	}
	command = command_find(argv[1]);
	if (command == NULL)
		return unknown_command(argv[1]);
	return command->run(command, argc - 1, argv + 1);
}

int
main(int argc, char **argv)
{
	int status;

	/* Beyond the largest size that a file may have, a write fails, and is said to. */
	signal(SIGXFSZ, SIG_IGN);
	beside_offer_backends();
	status = run(argc, argv);

	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "soma: standard output: %s\n", strerror(errno));
		return EXIT_INPUT;
	}
	return status;
}
