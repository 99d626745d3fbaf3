/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backends that were built with the command, for a command that was not installed.
 */
#ifndef SOMA_TOOLS_BESIDE_H
#define SOMA_TOOLS_BESIDE_H

/*
 * Where the command runs from its build folder, the folders of the modules beside it are put behind those of
 * SOMA_BACKEND_PATH in the environment, so that they are looked in before the installed one.  Before any thread.
 */
void beside_offer_backends(void);

#endif
