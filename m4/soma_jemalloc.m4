# SPDX-License-Identifier: Apache-2.0
# SOMA_JEMALLOC: where the allocator of soma's own records comes from.
#
# A private build (PREFIX) leaves the process's malloc alone and can be loaded by
# dlopen; the distribution's shared library does neither, and is used only when
# asked for by name.
AC_DEFUN([SOMA_JEMALLOC], [
AC_ARG_WITH([jemalloc],
  [AS_HELP_STRING([--with-jemalloc=PREFIX|system|auto],
    [a private jemalloc under PREFIX, the system's, or (auto) the one that ./quickstart made, else the system's])],
  [], [with_jemalloc=auto])

AS_CASE([$with_jemalloc], [yes|no], [AC_MSG_ERROR([--with-jemalloc takes PREFIX, system or auto])])
SOMA_JEMALLOC_FROM=$with_jemalloc
AS_IF([test "x$with_jemalloc" = xauto], [
  SOMA_JEMALLOC_FROM=system
  for soma_dir in "$srcdir/build/jemalloc" "$ac_pwd/build/jemalloc"; do
    AS_IF([test -f "$soma_dir/lib/libjemalloc_pic.a"],
      [SOMA_JEMALLOC_FROM=`cd "$soma_dir" && pwd`])
  done
])

# Absolute: make distcheck passes it on to a configure that runs elsewhere.
AS_IF([test "x$SOMA_JEMALLOC_FROM" != xsystem], [
  soma_dir=`cd "$SOMA_JEMALLOC_FROM" 2>/dev/null && pwd` ||
    AC_MSG_ERROR([--with-jemalloc=$SOMA_JEMALLOC_FROM: there is no such folder])
  SOMA_JEMALLOC_FROM=$soma_dir
])

# Whether it may read the environment and run before it is used.
soma_jemalloc_quiet=no
AS_IF([test "x$SOMA_JEMALLOC_FROM" = xsystem], [
  AC_CHECK_HEADER([jemalloc/jemalloc.h], [],
    [AC_MSG_ERROR([jemalloc/jemalloc.h not found: run ./quickstart (it makes a private one), or give --with-jemalloc=PREFIX, or install libjemalloc-dev (then libsoma cannot be loaded by dlopen)])])
  JEMALLOC_CFLAGS=
  JEMALLOC_LIBS=-ljemalloc
  soma_jemalloc_text="system: replaces malloc in every process that links libsoma; libsoma cannot be loaded by dlopen"
  AC_MSG_WARN([the system's jemalloc replaces malloc in every process that links libsoma, and keeps dlopen of libsoma from working; ./quickstart builds a private one])
  AC_DEFINE([SOMA_JEMALLOC_SYSTEM], [1], [The system's jemalloc is used, with unprefixed names.])
], [
  AC_MSG_CHECKING([for a private jemalloc under $SOMA_JEMALLOC_FROM])
  AS_IF([test -f "$SOMA_JEMALLOC_FROM/lib/libjemalloc_pic.a" &&
         grep -q soma_je_ "$SOMA_JEMALLOC_FROM/include/jemalloc/jemalloc.h"],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$SOMA_JEMALLOC_FROM holds no libjemalloc_pic.a with the prefix soma_je_; ./quickstart makes one under build/jemalloc])])
  JEMALLOC_CFLAGS="-isystem $SOMA_JEMALLOC_FROM/include"
  JEMALLOC_LIBS="$SOMA_JEMALLOC_FROM/lib/libjemalloc_pic.a -lpthread -lm"
  soma_jemalloc_text="private ($SOMA_JEMALLOC_FROM)"
  AC_MSG_CHECKING([that it does not read the environment])
  AS_IF([$NM "$SOMA_JEMALLOC_FROM/lib/libjemalloc_pic.a" 2>/dev/null | grep -q 'U \(secure_\)\?getenv'],
    [AC_MSG_RESULT([no])
     AC_MSG_WARN([this jemalloc reads SOMA_JE_MALLOC_CONF and starts when libsoma is loaded; ./quickstart builds one that does neither])],
    [AC_MSG_RESULT([yes])
     soma_jemalloc_quiet=yes])
])
AS_IF([test "x$SOMA_JEMALLOC_FROM" = xsystem], [SOMA_JEMALLOC_KIND=system],
  [test "x$soma_jemalloc_quiet" = xyes], [SOMA_JEMALLOC_KIND=quiet],
  [SOMA_JEMALLOC_KIND=private])
AC_MSG_CHECKING([jemalloc's version])
soma_jemalloc_version=`printf '%s\n' '#include <jemalloc/jemalloc.h>' 'soma_version JEMALLOC_VERSION' |
  $CC -E -P $CPPFLAGS $JEMALLOC_CFLAGS - 2>/dev/null | tr '\n' ' ' |
  sed -n 's/.*soma_version *"\([[^"-]]*\).*/\1/p'`
AS_IF([test -n "$soma_jemalloc_version"], [], [soma_jemalloc_version=unknown])
AC_MSG_RESULT([$soma_jemalloc_version])
AC_DEFINE_UNQUOTED([SOMA_JEMALLOC_VERSION], ["$soma_jemalloc_version"], [The version of jemalloc that soma was built with.])
AM_CONDITIONAL([SOMA_JEMALLOC_PRIVATE], [test "x$SOMA_JEMALLOC_FROM" != xsystem])
AC_SUBST([SOMA_JEMALLOC_FROM])
AC_SUBST([SOMA_JEMALLOC_KIND])
AC_SUBST([JEMALLOC_CFLAGS])
AC_SUBST([JEMALLOC_LIBS])
])
