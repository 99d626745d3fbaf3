# SPDX-License-Identifier: Apache-2.0
"""Numba on soma.  Needs Numba with CUDA, NumPy, a GPU, and soma: soma_numba.py in PYTHONPATH.

    SOMA_CONF=backend=async PYTHONPATH=/usr/local/share/soma/python python numba_soma.py
"""
import os

import common

numba = common.framework("numba")
os.environ.setdefault("SOMA_RMM", common.find("rmm"))
try:
    import soma_numba
except ImportError:
    common.skip("soma_numba.py is not in PYTHONPATH")

import numpy
from numba import cuda

cuda.set_memory_manager(soma_numba.SomaManager)


@cuda.jit
def double(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2


values = cuda.to_device(numpy.arange(10000, dtype=numpy.float32))
double[40, 256](values)
assert (values.copy_to_host() == 2 * numpy.arange(10000)).all()
print(soma_numba.stats())
del values
print(soma_numba.stats())
