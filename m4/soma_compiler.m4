# SPDX-License-Identifier: Apache-2.0
# SOMA_COMPILER: the language, the warnings, sanitizers and coverage.
AC_DEFUN([SOMA_COMPILER], [
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@],
    [build with -fsanitize=LIST: address,undefined (the default LIST) or thread])],
  [], [enable_sanitizers=no])
AC_ARG_ENABLE([coverage],
  [AS_HELP_STRING([--enable-coverage], [measure what the tests execute: make check coverage-report])],
  [], [enable_coverage=no])
AC_ARG_ENABLE([werror],
  [AS_HELP_STRING([--enable-werror], [make warnings errors])],
  [], [enable_werror=no])

soma_warnings="-Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla"
SOMA_CFLAGS="-std=gnu11 $soma_warnings -fvisibility=hidden"
AS_IF([test "x$enable_werror" = xyes], [SOMA_CFLAGS="$SOMA_CFLAGS -Werror"])

SOMA_INSTRUMENT=
AS_CASE([$enable_sanitizers],
  [no], [],
  [yes], [enable_sanitizers=address,undefined],
  [*thread*address*|*address*thread*],
    [AC_MSG_ERROR([--enable-sanitizers: thread goes with no other of them; build twice])])
AS_IF([test "x$enable_sanitizers" != xno], [
  SOMA_INSTRUMENT="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer -fno-sanitize-recover=all"
  AC_DEFINE([SOMA_SANITIZERS], [1], [Built with a sanitizer.])
])
AS_IF([test "x$enable_coverage" = xyes],
  [SOMA_INSTRUMENT="$SOMA_INSTRUMENT --coverage -fprofile-update=atomic"])
AS_IF([test -n "$SOMA_INSTRUMENT"], [
  AC_MSG_CHECKING([whether $CC takes $SOMA_INSTRUMENT])
  soma_save_cflags=$CFLAGS
  CFLAGS="$CFLAGS $SOMA_INSTRUMENT"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$CC cannot link with $SOMA_INSTRUMENT (config.log says why)])])
  CFLAGS=$soma_save_cflags
])

# Debug information without the place of the build: paths are from the source tree on.
# gcov needs them as they are.
SOMA_PREFIX_MAP=
AS_IF([test "x$enable_coverage" != xyes], [
  AC_MSG_CHECKING([whether $CC takes -ffile-prefix-map])
  soma_save_cflags=$CFLAGS
  CFLAGS="$CFLAGS -Werror -ffile-prefix-map=/soma=."
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes])
     SOMA_PREFIX_MAP='-ffile-prefix-map=$(abs_top_builddir)=. -ffile-prefix-map=$(abs_top_srcdir)=.'],
    [AC_MSG_RESULT([no])])
  CFLAGS=$soma_save_cflags
])

AC_CHECK_PROGS([GCOVR], [gcovr])
AC_CHECK_PROGS([NM], [nm])
AM_CONDITIONAL([SOMA_WITH_SANITIZERS], [test "x$enable_sanitizers" != xno])
AM_CONDITIONAL([SOMA_WITH_COVERAGE], [test "x$enable_coverage" = xyes])

AC_SUBST([SOMA_SANITIZERS], [$enable_sanitizers])
AC_SUBST([SOMA_CFLAGS])
AC_SUBST([SOMA_PREFIX_MAP])
AC_SUBST([SOMA_INSTRUMENT])
])
