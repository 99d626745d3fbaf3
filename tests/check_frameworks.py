# SPDX-License-Identifier: Apache-2.0
"""The entry points as python calls them, over guard:host with a budget of 64 MiB; see check_frameworks_python."""
import contextlib
import ctypes
import json
import os
import sys
import threading
import types
from ctypes import c_char_p, c_int, c_size_t, c_ssize_t, c_void_p

MIB = 1 << 20


def load(name, functions):
    library = ctypes.CDLL(f"soma_{name}.so")
    for function, (result, *arguments) in functions.items():
        entry = getattr(library, f"soma_{name}_{function}")
        entry.restype, entry.argtypes = result, arguments
    entry = getattr(library, f"soma_{name}_error")
    entry.restype, entry.argtypes = c_char_p, []
    return library


def stats(function, device=0):
    text = ctypes.create_string_buffer(2048)
    length = function(device, text, len(text))
    assert 0 < length < len(text)
    found = json.loads(text.value)
    # Told to write nothing, it says the same length, as snprintf does.
    assert function(device, None, 0) == length
    return found


def check_torch():
    torch = load("torch", {"malloc": (c_void_p, c_ssize_t, c_int, c_void_p),
                           "free": (None, c_void_p, c_ssize_t, c_int, c_void_p)})
    block = torch.soma_torch_malloc(1000, 0, None)
    assert block and block % 256 == 0
    ctypes.memset(block, 0x5a, 1000)
    found = stats(torch.soma_torch_stats)
    assert found["backend"] == "guard:host" and found["live_bytes"] == 1000 and found["live_count"] == 1
    assert found["budget"] == {"limit": 64 * MIB, "reserved": 1000, "remaining": 64 * MIB - 1000}
    torch.soma_torch_free(block, 1000, 0, None)
    assert stats(torch.soma_torch_stats)["live_count"] == 0
    assert not torch.soma_torch_malloc(65 * MIB, 0, None)
    assert b"budget" in torch.soma_torch_error()
    assert stats(torch.soma_torch_stats)["failed_allocs"] == 1
    return torch, torch.soma_torch_malloc(1000, 0, None)


def check_cupy():
    cupy = load("cupy", {"malloc": (c_void_p, c_void_p, c_size_t, c_int),
                         "free": (None, c_void_p, c_void_p, c_int)})
    # As CuPy does it: by addresses.
    malloc = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_int)(
        ctypes.cast(cupy.soma_cupy_malloc, c_void_p).value)
    free = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int)(ctypes.cast(cupy.soma_cupy_free, c_void_p).value)
    blocks = [malloc(None, 100 + i, 0) for i in range(100)]
    assert all(blocks) and len(set(blocks)) == 100
    for block in blocks:
        free(None, block, 0)
    assert stats(cupy.soma_cupy_stats)["alloc_count"] == 100


def check_rmm_threads():
    rmm = load("rmm", {"allocate": (c_void_p, c_size_t, c_void_p, c_void_p),
                       "deallocate": (None, c_void_p, c_size_t, c_void_p, c_void_p)})

    def work():
        for size in range(1, 200):
            block = rmm.soma_rmm_allocate(size, None, 0)
            ctypes.memset(block, 1, size)
            rmm.soma_rmm_deallocate(block, size, None, 0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = stats(rmm.soma_rmm_stats)
    assert found["alloc_count"] == found["free_count"] == 4 * 199 and found["guard"]["reports"] == 0


class HostManager:
    """As much of Numba's base class as the manager uses."""

    def __init__(self, context):
        self.context, self.deferring = context, 0

    @contextlib.contextmanager
    def defer_cleanup(self):
        self.deferring += 1
        yield
        self.deferring -= 1


def check_numba():
    class Pointer:
        def __init__(self, context, pointer, size, finalizer):
            self.pointer, self.size, self.finalizer = pointer, size, finalizer

    cuda = types.ModuleType("numba.cuda")
    cuda.HostOnlyCUDAMemoryManager, cuda.MemoryPointer = HostManager, Pointer
    numba = types.ModuleType("numba")
    numba.cuda, numba.config = cuda, types.SimpleNamespace()
    sys.modules.update({"numba": numba, "numba.cuda": cuda})
    import soma_numba
    context = types.SimpleNamespace(device=types.SimpleNamespace(id=0))
    manager = soma_numba._numba_memory_manager(context=context)
    assert manager.interface_version == 1
    before = soma_numba.stats()["live_count"]
    first, second = manager.memalloc(4096), manager.memalloc(100)
    assert first.pointer.value % 256 == 0 and first.size == 4096
    assert soma_numba.stats()["live_count"] == before + 2
    first.finalizer()
    assert soma_numba.stats()["live_count"] == before + 1
    with manager.defer_cleanup():
        assert manager.deferring == 1
        second.finalizer()
        assert soma_numba.stats()["live_count"] == before + 1
    assert soma_numba.stats()["live_count"] == before and manager.deferring == 0
    try:
        manager.memalloc(65 * MIB)
    except MemoryError as error:
        assert "budget" in str(error)
    else:
        raise AssertionError("an allocation that failed raised nothing")


def check_fork(torch, block):
    child = os.fork()
    if child == 0:
        fine = not torch.soma_torch_malloc(10, 0, None) and b"forked" in torch.soma_torch_error()
        torch.soma_torch_free(block, 1000, 0, None)
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert stats(torch.soma_torch_stats)["live_count"] == 1
    torch.soma_torch_free(block, 1000, 0, None)
    assert stats(torch.soma_torch_stats)["live_count"] == 0


def main():
    torch, block = check_torch()
    check_cupy()
    check_rmm_threads()
    check_numba()
    check_fork(torch, block)
    assert torch.soma_torch_flush() == 0


main()
