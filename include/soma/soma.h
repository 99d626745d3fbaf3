/* SPDX-License-Identifier: Apache-2.0 */
/* All of soma's public interface. */
#ifndef SOMA_SOMA_H
#define SOMA_SOMA_H

#include <soma/budget.h>
#include <soma/launch.h>
#include <soma/log.h>
#include <soma/model.h>
#include <soma/pool.h>
#include <soma/resource.h>
#include <soma/runtime.h>
#include <soma/status.h>
#include <soma/version.h>

#endif
