# SPDX-License-Identifier: Apache-2.0
# SOMA_CUDA: cuda.h, for the backends async and sync.  Without it they are built from
# declarations of our own; nothing is ever linked, so neither needs a toolkit to run.
AC_DEFUN([SOMA_CUDA], [
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@|--without-cuda],
    [compile against DIR/include/cuda.h, or not even one that is found; without it the CUDA backends are built all the same])],
  [], [with_cuda=auto])

# DIR of a toolkit; empty: the compiler's own folders.
AS_CASE([$with_cuda],
  [no], [soma_cuda_places=],
  [auto|yes], [soma_cuda_places="builtin /usr/local/cuda /opt/cuda"],
  [soma_cuda_places=$with_cuda])
SOMA_CUDA_CFLAGS=
soma_cuda=no
for soma_place in $soma_cuda_places; do
  AS_IF([test "x$soma_cuda" = xno], [
    soma_flags=
    AS_IF([test "$soma_place" != builtin], [soma_flags="-isystem $soma_place/include"])
    AC_MSG_CHECKING([for cuda.h of CUDA 12.2 or later ($soma_place)])
    soma_save_cppflags=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $soma_flags"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <cuda.h>
#if CUDA_VERSION < 12020
#error too old
#endif
]], [[CUmemPoolProps props = { .maxSize = 0 }; (void)props;]])],
      [AC_MSG_RESULT([yes])
       soma_cuda=$soma_place
       SOMA_CUDA_CFLAGS=$soma_flags],
      [AC_MSG_RESULT([no])])
    CPPFLAGS=$soma_save_cppflags
  ])
done
AS_IF([test "x$soma_cuda" = xno], [
  AS_CASE([$with_cuda], [auto|no], [],
    [AC_MSG_ERROR([--with-cuda=$with_cuda: no cuda.h of CUDA 12.2 or later there (DIR/include/cuda.h)])])
], [AC_DEFINE([SOMA_WITH_CUDA_H], [1], [cuda.h declares the driver; else backends/cuda/api.h does.])])
AM_CONDITIONAL([SOMA_WITH_CUDA_H], [test "x$soma_cuda" != xno])
AC_SUBST([SOMA_CUDA_CFLAGS])
])
