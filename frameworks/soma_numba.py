# SPDX-License-Identifier: Apache-2.0
"""Numba's device memory from soma (its External Memory Management plugin, interface version 1).

    NUMBA_CUDA_MEMORY_MANAGER=soma_numba python program.py

or, before the first use of a device, numba.cuda.set_memory_manager(soma_numba.SomaManager).
SOMA_CONF configures it; SOMA_RMM names soma_rmm.so where the loader does not find it.
Blocks are made and freed in the order of the legacy default stream, since Numba says no stream: work on
streams of numba.cuda.stream() is in order with it.  While defer_cleanup() is active nothing is freed.
"""
import contextlib
import ctypes
import json
import os

from numba import config, cuda

_soma = ctypes.CDLL(os.environ.get("SOMA_RMM", "soma_rmm.so"))
_soma.soma_rmm_allocate.restype = ctypes.c_void_p
_soma.soma_rmm_allocate.argtypes = [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
_soma.soma_rmm_deallocate.restype = None
_soma.soma_rmm_deallocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
_soma.soma_rmm_error.restype = ctypes.c_char_p
_soma.soma_rmm_stats.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]


def stats(device=0):
    """What soma counts on the device, as a dictionary."""
    text = ctypes.create_string_buffer(2048)
    if _soma.soma_rmm_stats(device, text, len(text)) < 0:
        raise RuntimeError(_soma.soma_rmm_error().decode())
    return json.loads(text.value)


def _pointer(address):
    if getattr(config, "CUDA_USE_NVIDIA_BINDING", False):
        from cuda.bindings.driver import CUdeviceptr
        return CUdeviceptr(address)
    return ctypes.c_uint64(address)


class SomaManager(cuda.HostOnlyCUDAMemoryManager):
    interface_version = 1

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._deferring, self._deferred = 0, []

    def memalloc(self, size):
        device = self.context.device.id
        address = _soma.soma_rmm_allocate(size, None, device)
        if address is None and size > 0:
            raise MemoryError(_soma.soma_rmm_error().decode())

        def finalizer():
            self._deferred.append((address, size, device))
            self._free_deferred()

        return cuda.MemoryPointer(self.context, _pointer(address or 0), size, finalizer=finalizer)

    def _free_deferred(self):
        while self._deferred and not self._deferring:
            address, size, device = self._deferred.pop()
            _soma.soma_rmm_deallocate(address, size, None, device)

    def get_ipc_handle(self, memory):
        raise NotImplementedError("a block of soma's cannot be opened by another process on its own")

    def get_memory_info(self):
        raise RuntimeError("soma_numba.stats() has what soma counts")

    @contextlib.contextmanager
    def defer_cleanup(self):
        with super().defer_cleanup():
            self._deferring += 1
            try:
                yield
            finally:
                self._deferring -= 1
                self._free_deferred()


_numba_memory_manager = SomaManager
