# SPDX-License-Identifier: Apache-2.0
# SOMA_BENCH: the peers of `make bench` that this machine can build.  One that is
# missing leaves its lines out of the table; nothing else needs them.
AC_DEFUN([SOMA_BENCH], [
AC_CHECK_LIB([jemalloc], [mallctl], [soma_bench_jemalloc=yes], [soma_bench_jemalloc=no])
AC_CHECK_HEADER([mimalloc.h],
  [AC_CHECK_LIB([mimalloc], [mi_malloc], [soma_bench_mimalloc=yes], [soma_bench_mimalloc=no])],
  [soma_bench_mimalloc=no])
AC_LANG_PUSH([C++])
AC_MSG_CHECKING([for a C++ compiler])
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <set>]], [[std::set<int> s; s.insert(1);]])],
  [soma_bench_cxx=yes], [soma_bench_cxx=no])
AC_MSG_RESULT([$soma_bench_cxx])
AC_LANG_POP([C++])
AM_CONDITIONAL([SOMA_BENCH_JEMALLOC], [test "x$soma_bench_jemalloc" = xyes])
AM_CONDITIONAL([SOMA_BENCH_MIMALLOC], [test "x$soma_bench_mimalloc" = xyes])
AM_CONDITIONAL([SOMA_BENCH_TREE], [test "x$soma_bench_cxx" = xyes])
])
