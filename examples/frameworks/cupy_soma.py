# SPDX-License-Identifier: Apache-2.0
"""CuPy on soma.  Needs CuPy, a GPU, and soma (SOMA_LIBDIR: where it is installed).

    SOMA_CONF=backend=async,trace=run.csv python cupy_soma.py
"""
import ctypes
from ctypes import c_int, c_size_t, c_void_p

import common

cupy = common.framework("cupy")
soma = common.library("cupy", {"malloc": (c_void_p, c_void_p, c_size_t, c_int),
                               "free": (None, c_void_p, c_void_p, c_int)})


def address(function):
    return ctypes.cast(function, c_void_p).value


def allocator(stream=0):
    """Blocks in the order of the stream with this handle; 0, the legacy default stream, is in order with all
    but non-blocking ones.  CuPy does not look at what malloc returns, so this does."""
    memory = cupy.cuda.CFunctionAllocator(stream, address(soma.soma_cupy_malloc), address(soma.soma_cupy_free), soma)

    def allocate(size):
        pointer = memory.malloc(size)
        if pointer.ptr == 0 and size > 0:
            raise MemoryError(soma.soma_cupy_error().decode())
        return pointer

    return allocate


cupy.cuda.set_allocator(allocator())
a = cupy.arange(1 << 20, dtype=cupy.float32)
assert float((a * 2).sum()) == float(2 * a.sum())

stream = cupy.cuda.Stream(non_blocking=True)
a_done = cupy.cuda.get_current_stream().record()
with stream, cupy.cuda.using_allocator(allocator(stream.ptr)):
    stream.wait_event(a_done)
    b = a + 1
    stream.synchronize()
    assert int(b[0]) == 1
    print(common.stats(soma, "cupy"))
    del b
del a
cupy.cuda.Device().synchronize()
soma.soma_cupy_trim()
print(common.stats(soma, "cupy"))
soma.soma_cupy_flush()
