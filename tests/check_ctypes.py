# SPDX-License-Identifier: Apache-2.0
"""Loads libsoma into this python, checks what that costs, and drives a model.

usage: check_ctypes.py LIBRARY quiet|private
"""
import ctypes
import os
import sys
import threading
from ctypes import POINTER, byref, c_bool, c_char_p, c_uint64, c_void_p


class DlInfo(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("symbol", c_char_p), ("address", c_void_p)]


class Alloc(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in
                ("ptr", "size", "capacity", "stream", "ready_seq", "wait_stream", "wait_seq")]


def file_of(function):
    """The file that a symbol's address lies in."""
    info = DlInfo()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [c_void_p, POINTER(DlInfo)]
    assert dladdr(ctypes.cast(function, c_void_p), byref(info)) != 0
    return os.path.basename(info.file.decode())


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


def check_malloc(soma):
    for name in ("malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc"):
        for library in (ctypes.CDLL(None), soma):
            assert file_of(getattr(library, name)).startswith("libc.so"), name
    for name in ("mallocx", "soma_je_mallocx", "soma__arena_create"):
        assert not hasattr(soma, name), f"{name} is exported"


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
    soma = check_load(path, kind)
    check_malloc(soma)
    check_status(soma)
    prepare_model(soma)
    drive_model(soma)
    check_malloc(soma)
    assert len(os.listdir("/proc/self/task")) == 1, "a model started a thread"
    check_thread_outlives_library(soma)
    print("done")


main(*sys.argv[1:])
