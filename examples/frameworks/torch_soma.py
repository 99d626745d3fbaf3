# SPDX-License-Identifier: Apache-2.0
"""PyTorch on soma.  Needs PyTorch with CUDA, a GPU, and soma (SOMA_LIBDIR: where it is installed).

    SOMA_CONF=backend=guard:async,budget=8G python torch_soma.py
"""
import ctypes

import common

torch = common.framework("torch")
soma = common.library("torch", {})

allocator = torch.cuda.memory.CUDAPluggableAllocator(common.find("torch"), "soma_torch_malloc", "soma_torch_free")
native = allocator.allocator()


def address(function):
    return ctypes.cast(getattr(soma, function), ctypes.c_void_p).value


# Without the first a block may be used again while another stream still works on it.
for hook, function in (("set_record_stream_fn", "soma_torch_record_stream"), ("set_reset_fn", "soma_torch_reset")):
    if hasattr(native, hook):
        getattr(native, hook)(address(function))
    else:
        print(f"this PyTorch has no {hook}")
torch.cuda.memory.change_current_allocator(allocator)

a = torch.rand(1024, 1024, device="cuda")
b = a @ a
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    c = b * 2
b.record_stream(side)
del b
torch.cuda.synchronize()
assert torch.allclose(c, 2 * (a @ a), rtol=1e-3)
print(common.stats(soma, "torch"))
del a, c
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(common.stats(soma, "torch"))
soma.soma_torch_flush()
