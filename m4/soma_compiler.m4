# SOMA_COMPILER: the language, the warnings, sanitizers and coverage.
AC_DEFUN([SOMA_COMPILER], [
AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers=LIST], [build with -fsanitize=LIST (address,undefined or thread)])],
  [], [enable_sanitizers=no])
AC_ARG_ENABLE([coverage],
  [AS_HELP_STRING([--enable-coverage], [measure what the tests execute])],
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
  [yes], [enable_sanitizers=address,undefined])
AS_IF([test "x$enable_sanitizers" != xno], [
  SOMA_INSTRUMENT="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer -fno-sanitize-recover=all"
  AC_DEFINE([SOMA_SANITIZERS], [1], [Built with a sanitizer.])
])
AS_IF([test "x$enable_coverage" = xyes], [SOMA_INSTRUMENT="$SOMA_INSTRUMENT --coverage"])
AM_CONDITIONAL([SOMA_WITH_SANITIZERS], [test "x$enable_sanitizers" != xno])

AC_SUBST([SOMA_CFLAGS])
AC_SUBST([SOMA_INSTRUMENT])
])
