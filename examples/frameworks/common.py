# SPDX-License-Identifier: Apache-2.0
"""What the examples share: finding soma's modules, and saying what is missing."""
import ctypes
import importlib
import json
import os
import sys


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def framework(name):
    """The framework, if it is installed and there is a GPU."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        skip(f"{name} is not installed")
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        skip("there is no CUDA driver")
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        skip("there is no GPU")
    return module


def find(name):
    """The path of soma_NAME.so: in SOMA_LIBDIR, beside libsoma, or where the loader looks."""
    file = f"soma_{name}.so"
    for folder in (os.environ.get("SOMA_LIBDIR", ""), "/usr/local/lib", "/usr/lib"):
        if folder and os.path.exists(os.path.join(folder, file)):
            return os.path.join(folder, file)
    return file


def library(name, functions):
    """soma_NAME.so with the types of its functions: {"malloc": (result, argument, ...)}."""
    try:
        loaded = ctypes.CDLL(find(name))
    except OSError as error:
        skip(f"{error}; SOMA_LIBDIR says where soma is installed")
    for function, (result, *arguments) in functions.items():
        entry = getattr(loaded, f"soma_{name}_{function}")
        entry.restype, entry.argtypes = result, arguments
    getattr(loaded, f"soma_{name}_error").restype = ctypes.c_char_p
    return loaded


def stats(loaded, name, device=0):
    text = ctypes.create_string_buffer(2048)
    if getattr(loaded, f"soma_{name}_stats")(device, text, len(text)) < 0:
        raise RuntimeError(getattr(loaded, f"soma_{name}_error")().decode())
    return json.loads(text.value)
