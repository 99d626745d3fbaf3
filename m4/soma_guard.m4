# SOMA_GUARD: libdw, for names and lines in the guard's reports.  Without it they have
# addresses and exported names.
AC_DEFUN([SOMA_GUARD], [
AC_ARG_WITH([libdw],
  [AS_HELP_STRING([--with-libdw|--without-libdw],
    [names and lines in the guard's reports by libdw (used where it is found)])],
  [], [with_libdw=auto])
soma_libdw=no
AS_IF([test "x$with_libdw" != xno], [
  PKG_CHECK_MODULES([LIBDW], [libdw], [soma_libdw=yes],
    [AS_IF([test "x$with_libdw" = xyes],
      [AC_MSG_ERROR([--with-libdw was given and libdw was not found (Debian: libdw-dev)])])])
])
AS_IF([test "x$soma_libdw" = xyes],
  [AC_DEFINE([SOMA_WITH_LIBDW], [1], [libdw names what is on stacks.])])
])
