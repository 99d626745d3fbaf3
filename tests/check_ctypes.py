# SPDX-License-Identifier: Apache-2.0
"""Loads libsoma into this python, checks what that costs, and drives a model.

usage: check_ctypes.py LIBRARY quiet|private
"""
import ctypes
import os
import sys
import threading
from ctypes import POINTER, byref, c_bool, c_char_p, c_size_t, c_uint64, c_void_p


class MallInfo(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in
                ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                 "fordblks", "keepcost")]


class Alloc(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in
                ("ptr", "size", "capacity", "stream", "ready_seq", "wait_stream", "wait_seq")]


def resident_memory():
    """Bytes of anonymous memory that are really there."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    raise AssertionError("no RssAnon in /proc/self/status")


def check_load(path, kind):
    before = resident_memory(), len(os.listdir("/proc/self/task"))
    soma = ctypes.CDLL(path)
    after = resident_memory(), len(os.listdir("/proc/self/task"))
    assert after[1] == before[1], "loading libsoma started a thread"
    if kind == "quiet":
        assert after[0] - before[0] <= 256 << 10, f"loading took {after[0] - before[0]} bytes"
    return soma


def malloc_addresses(library):
    names = ("malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc")
    return {name: ctypes.cast(getattr(library, name), c_void_p).value for name in names}


def check_malloc(soma, before):
    """Whatever malloc was before libsoma came, it still is, and libc counts what it gives."""
    assert malloc_addresses(ctypes.CDLL(None)) == before, "malloc is another one now"
    libc = ctypes.CDLL("libc.so.6")
    assert malloc_addresses(soma) == malloc_addresses(libc), "libsoma has a malloc of its own"
    for name in ("mallocx", "soma_je_mallocx", "soma__arena_create"):
        assert not hasattr(soma, name), f"{name} is exported"
    malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
    malloc.argtypes, malloc.restype, free.argtypes = [c_size_t], c_void_p, [c_void_p]
    libc.mallinfo2.restype = MallInfo
    in_use = libc.mallinfo2().uordblks
    blocks = [malloc(1000) for _ in range(1000)]
    assert libc.mallinfo2().uordblks - in_use >= 900 * 1000, "malloc is not libc's"
    for block in blocks:
        free(block)


def check_status(soma):
    soma.soma_version.restype = soma.soma_status_name.restype = c_char_p
    assert soma.soma_version().count(b".") == 2
    assert soma.soma_status_name(3) == b"OUT_OF_HOST_MEMORY"


def prepare_model(soma):
    soma.soma_model_create.argtypes = [c_void_p, POINTER(c_void_p)]
    soma.soma_model_destroy.argtypes = [c_void_p]
    soma.soma_model_destroy.restype = None
    soma.soma_model_alloc.argtypes = [c_void_p, c_uint64, c_uint64, POINTER(Alloc)]
    soma.soma_model_free.argtypes = [c_void_p, c_uint64, c_uint64]
    soma.soma_model_synchronize.argtypes = [c_void_p, c_uint64]
    soma.soma_model_is_live.argtypes = [c_void_p, c_uint64]
    soma.soma_model_is_live.restype = c_bool
    for counter in ("used", "reserved", "live_count"):
        getter = getattr(soma, f"soma_model_{counter}")
        getter.argtypes = [c_void_p]
        getter.restype = c_uint64


def drive_model(soma):
    model = c_void_p()
    assert soma.soma_model_create(None, byref(model)) == 0
    blocks = [Alloc() for _ in range(1000)]
    for number, block in enumerate(blocks):
        assert soma.soma_model_alloc(model, 1000 + number, 0, byref(block)) == 0
        assert block.ready_seq == number and soma.soma_model_is_live(model, block.ptr)
    assert len({block.ptr for block in blocks}) == 1000
    assert soma.soma_model_used(model) == sum(block.size for block in blocks) == 1499500
    assert soma.soma_model_free(model, blocks[0].ptr + 1, 0) == 1
    for block in blocks:
        assert soma.soma_model_free(model, block.ptr, 0) == 0
    assert soma.soma_model_used(model) == 0 and soma.soma_model_live_count(model) == 0
    assert soma.soma_model_synchronize(model, 0) == 0
    assert soma.soma_model_reserved(model) == 0
    soma.soma_model_destroy(model)


def check_thread_outlives_library(soma):
    """A thread that used libsoma ends after dlclose: its exit handler must still be there."""
    used, closed = threading.Event(), threading.Event()

    def work():
        drive_model(soma)
        used.set()
        closed.wait()

    thread = threading.Thread(target=work)
    thread.start()
    used.wait()
    dlclose = ctypes.CDLL(None).dlclose
    dlclose.argtypes = [c_void_p]
    assert dlclose(soma._handle) == 0
    closed.set()
    thread.join()


def main(path, kind):
    before = malloc_addresses(ctypes.CDLL(None))
    soma = check_load(path, kind)
    check_malloc(soma, before)
    check_status(soma)
    prepare_model(soma)
    drive_model(soma)
    check_malloc(soma, before)
    assert len(os.listdir("/proc/self/task")) == 1, "a model started a thread"
    check_thread_outlives_library(soma)
    print("done")


main(*sys.argv[1:])
