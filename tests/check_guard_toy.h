/* SPDX-License-Identifier: Apache-2.0 */
/* A backend over malloc; device 0 is host memory, device 1 is reached by copies alone. */
#ifndef SOMA_TESTS_CHECK_GUARD_TOY_H
#define SOMA_TESTS_CHECK_GUARD_TOY_H

#include <soma/backend.h>

extern const struct soma_backend_ops toy_ops;

#endif
