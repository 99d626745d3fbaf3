# SPDX-License-Identifier: Apache-2.0
# SOMA_SUMMARY: what was decided, at the end of configure.
AC_DEFUN([SOMA_SUMMARY], [
AC_MSG_NOTICE([
  soma $PACKAGE_VERSION
    compiler     $CC
    jemalloc     $soma_jemalloc_text
    sanitizers   $enable_sanitizers
    coverage     $enable_coverage
    cuda.h       $soma_cuda
    unit tests   $soma_check
    bench peers  jemalloc $soma_bench_jemalloc, mimalloc $soma_bench_mimalloc, ordered set $soma_bench_cxx
])
])
