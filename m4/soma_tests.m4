# SPDX-License-Identifier: Apache-2.0
# SOMA_TESTS: Check for the unit tests.
AC_DEFUN([SOMA_TESTS], [
PKG_CHECK_MODULES([CHECK], [check >= 0.10], [soma_check=yes], [soma_check=no])
AM_CONDITIONAL([SOMA_WITH_CHECK], [test "x$soma_check" = xyes])
AC_CHECK_PROGS([VALGRIND], [valgrind])
AC_CHECK_PROGS([PYTHON3], [python3])
AC_SUBST([PYTHON3])
])
