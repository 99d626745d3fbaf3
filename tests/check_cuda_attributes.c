/* SPDX-License-Identifier: Apache-2.0 */
/* async and sync: the pool's attributes, trims, and what other processes and devices get of it. */
#include "tests/cuda_fixture.h"

#include <fcntl.h>

/* ---- the pool ---------------------------------------------------------------------------- */

START_TEST(attributes_are_the_pools)
{
	uint64_t value;

	start("async", FAKE_IMMEDIATE);
	uint64_t ptr = take(1000, NULL);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_USED_CURRENT), 1000);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_RESERVED_CURRENT), 1000);
	give(ptr, 1000, NULL);
	OK(ops->synchronize(self));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_CURRENT), 0);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_USED_HIGH), 1000);
	OK(ops->pool_set(self, SOMA_BACKEND_USED_HIGH, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_USED_HIGH), 0);
	REFUSED(INVALID_VALUE, "a peak", ops->pool_set(self, SOMA_BACKEND_RESERVED_HIGH, 1));
	REFUSED(INVALID_VALUE, "only be read", ops->pool_set(self, SOMA_BACKEND_USED_CURRENT, 0));
	REFUSED(INVALID_VALUE, "only be read", ops->pool_set(self, SOMA_BACKEND_RESERVED_CURRENT, 0));
	REFUSED(INVALID_VALUE, "0 or 1", ops->pool_set(self, SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC, 2));
	REFUSED(NOT_SUPPORTED, "no attribute 9", ops->pool_get(self, (enum soma_backend_attribute)9, &value));
	REFUSED(NOT_SUPPORTED, "no attribute 0", ops->pool_set(self, (enum soma_backend_attribute)0, 0));
	OK(ops->pool_set(self, SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC, 0));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_REUSE_ALLOW_OPPORTUNISTIC), 0);
	OK(ops->pool_set(self, SOMA_BACKEND_RELEASE_THRESHOLD, 5 * MB));
	ck_assert_uint_eq(attribute(SOMA_BACKEND_RELEASE_THRESHOLD), 5 * MB);
	close_backend();
}
END_TEST

START_TEST(a_trim_gives_back_what_is_free_and_seen)
{
	start("async", FAKE_IMMEDIATE);
	struct soma_backend_stream *stream = stream_new();
	uint64_t kept = take(1 * MB, stream), ptr = take(100 * MB, stream);

	give(ptr, 100 * MB, stream);
	OK(ops->synchronize(self));
	ck_assert_uint_ge(attribute(SOMA_BACKEND_RESERVED_CURRENT), 100 * MB);
	OK(ops->pool_trim(self, 0));
	ck_assert_uint_lt(attribute(SOMA_BACKEND_RESERVED_CURRENT), 100 * MB);
	ck_assert_uint_ge(attribute(SOMA_BACKEND_RESERVED_CURRENT), 1 * MB);
	give(kept, 1 * MB, stream);
	close_backend();
}
END_TEST

/* ---- sharing --------------------------------------------------------------------------- */

START_TEST(nothing_is_exported_that_was_not_opened_for_it)
{
	struct soma_backend_exported name;
	struct soma_backend_import *import;
	int descriptor = -1;

	start("async", FAKE_IMMEDIATE);
	uint64_t ptr = take(1000, NULL);
	REFUSED(NOT_SUPPORTED, "async.export=on",
		ops->export_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, &descriptor));
	REFUSED(NOT_SUPPORTED, "async.export=on", ops->export_block(self, ptr, &name));
	REFUSED(NOT_SUPPORTED, "async.export=on",
		ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, 0, &import));
	close_backend();
}
END_TEST

START_TEST(an_exported_block_is_read_through_its_import)
{
	struct soma_backend_exported name;
	struct soma_backend_import *import;
	unsigned char bytes[4];
	int descriptor;
	uint64_t there;

	start_fake();
	open_with("async", "async.export", "on");
	ck_assert_uint_ne(query().capabilities & SOMA_BACKEND_EXPORTS, 0);
	uint64_t ptr = take(1000, NULL);
	OK(ops->fill8(self, ptr, 0x42, 1000, NULL));
	REFUSED(NOT_SUPPORTED, "kind 2",
		ops->export_pool(self, (enum soma_backend_handle_kind)2, &descriptor));
	OK(ops->export_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, &descriptor));
	ck_assert_int_ne(fcntl(descriptor, F_GETFD), -1);
	REFUSED(INVALID_VALUE, "no block of the pool", ops->export_block(self, ptr + 256, &name));
	OK(ops->export_block(self, ptr, &name));
	OK(ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, descriptor, &import));
	OK(ops->import_block(self, import, &name, &there));
	OK(ops->copy_to_host(self, bytes, there, 4, NULL));
	ck_assert_int_eq(bytes[3], 0x42);
	REFUSED(INVALID_VALUE, "no block", ops->free(self, there, 1000, NULL));
	REFUSED(INVALID_VALUE, "no block of this import", ops->import_free(self, import, ptr, NULL));
	OK(ops->import_free(self, import, there, NULL));
	OK(ops->import_block(self, import, &name, &there));
	OK(ops->synchronize(self));
	OK(ops->import_free(self, import, there, stream_new()));
	ops->import_close(self, import);
	OK(ops->import_pool(self, SOMA_BACKEND_HANDLE_POSIX_FD, descriptor, &import));
	OK(ops->import_block(self, import, &name, &there));
	close(descriptor);
	close_backend();
}
END_TEST

START_TEST(another_device_gets_access_if_it_can)
{
	bool can;

	start_fake();
	fake.devices(3);
	fake.device_peer(1, 0, true);
	fake.device_peer(2, 0, false);
	open_backend("async");
	OK(ops->peer_can_access(self, 0, &can));
	ck_assert(can);
	OK(ops->peer_can_access(self, 1, &can));
	ck_assert(can);
	OK(ops->peer_can_access(self, 2, &can));
	ck_assert(!can);
	OK(ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_READ_WRITE));
	OK(ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_NONE));
	OK(ops->peer_set_access(self, 0, SOMA_BACKEND_ACCESS_READ_WRITE));
	REFUSED(NOT_SUPPORTED, "device 2 cannot reach",
		ops->peer_set_access(self, 2, SOMA_BACKEND_ACCESS_READ_WRITE));
	REFUSED(INVALID_VALUE, "its own memory", ops->peer_set_access(self, 0, SOMA_BACKEND_ACCESS_NONE));
	REFUSED(INVALID_VALUE, "access 1", ops->peer_set_access(self, 1, SOMA_BACKEND_ACCESS_READ));
	REFUSED(NOT_FOUND, "no device 3", ops->peer_can_access(self, 3, &can));
	close_backend();
}
END_TEST

CUDA_MAIN("cuda attributes", attributes_are_the_pools, a_trim_gives_back_what_is_free_and_seen,
	  nothing_is_exported_that_was_not_opened_for_it, an_exported_block_is_read_through_its_import,
	  another_device_gets_access_if_it_can)
