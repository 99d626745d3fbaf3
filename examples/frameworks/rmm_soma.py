# SPDX-License-Identifier: Apache-2.0
"""RMM on soma.  Needs RMM, a GPU, and soma (SOMA_LIBDIR: where it is installed).

    SOMA_CONF=backend=async,budget=8G python rmm_soma.py

From C++ no python is needed: soma_rmm_allocate and soma_rmm_deallocate are the two callbacks of
rmm::mr::callback_memory_resource as they stand, and the device's ordinal, as a pointer, is the argument of each.
"""
from ctypes import c_size_t, c_void_p

import common

rmm = common.framework("rmm")
soma = common.library("rmm", {"allocate": (c_void_p, c_size_t, c_void_p, c_void_p),
                              "deallocate": (None, c_void_p, c_size_t, c_void_p, c_void_p)})
DEVICE = 0


def handle(stream):
    """The driver's handle.  An RMM without streams in callbacks, or one that does not say the handle: everything is
    in the order of the legacy default stream, and the caller waits."""
    if stream is None:
        return 0, False
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1], False
    return 0, True


def allocate(size, stream=None):
    native, unknown = handle(stream)
    address = soma.soma_rmm_allocate(size, native, DEVICE)
    if address is None and size > 0:
        raise MemoryError(soma.soma_rmm_error().decode())
    if unknown:
        rmm.pylibrmm.stream.DEFAULT_STREAM.synchronize()
    return address or 0


def deallocate(address, size, stream=None):
    native, unknown = handle(stream)
    if unknown:
        stream.synchronize()
    soma.soma_rmm_deallocate(address, size, native, DEVICE)


rmm.mr.set_per_device_resource(DEVICE, rmm.mr.CallbackMemoryResource(allocate, deallocate))
buffers = [rmm.DeviceBuffer.to_device(bytes([i]) * 1000) for i in range(10)]
assert all(buffer.tobytes() == bytes([i]) * 1000 for i, buffer in enumerate(buffers))
print(common.stats(soma, "rmm"))
del buffers
print(common.stats(soma, "rmm"))
soma.soma_rmm_flush()
