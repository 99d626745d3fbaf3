/* SPDX-License-Identifier: Apache-2.0 */
/* The one runtime of each device: who has it, and who opens or closes it.  devices.c's mutex covers the
 * table, and the references of the runtimes in it; it is not held while one is opened or closed. */
#ifndef SOMA_LIB_RUNTIME_DEVICES_H
#define SOMA_LIB_RUNTIME_DEVICES_H

#include "lib/runtime/runtime.h"

/* Gives back a reference of a runtime that is in the table; the last one closes it. */
void soma__devices_release(struct soma_runtime *runtime);

#endif
