# SOMA_JEMALLOC: where the allocator of soma's own records comes from.
#
# A private build (PREFIX) leaves the process's malloc alone and can be loaded by
# dlopen; the distribution's shared library does neither, and is used only when
# asked for by name.
AC_DEFUN([SOMA_JEMALLOC], [
AC_ARG_WITH([jemalloc],
  [AS_HELP_STRING([--with-jemalloc=PREFIX|system|auto],
    [a private jemalloc under PREFIX, the system's, or the first found @<:@auto@:>@])],
  [], [with_jemalloc=auto])

soma_jemalloc=
AS_IF([test "x$with_jemalloc" = xauto], [
  for soma_dir in "$ac_pwd/build/jemalloc" "$srcdir/build/jemalloc"; do
    AS_IF([test -z "$soma_jemalloc" && test -f "$soma_dir/lib/libjemalloc_pic.a"], [soma_jemalloc=$soma_dir])
  done
  AS_IF([test -z "$soma_jemalloc"], [soma_jemalloc=system])
], [soma_jemalloc=$with_jemalloc])

AS_IF([test "x$soma_jemalloc" = xsystem], [
  AC_CHECK_HEADER([jemalloc/jemalloc.h], [],
    [AC_MSG_ERROR([jemalloc/jemalloc.h not found: run ./quickstart, or install libjemalloc-dev, or give --with-jemalloc=PREFIX])])
  JEMALLOC_CFLAGS=
  JEMALLOC_LIBS=-ljemalloc
  soma_jemalloc_text="system: replaces malloc in every process that links libsoma, and libsoma cannot be loaded by dlopen"
  AC_MSG_WARN([the system's jemalloc replaces malloc in every process that links libsoma, and keeps dlopen of libsoma from working; ./quickstart builds a private one])
  AC_DEFINE([SOMA_JEMALLOC_SYSTEM], [1], [The system's jemalloc is used, with unprefixed names.])
], [
  AC_MSG_CHECKING([for a private jemalloc under $soma_jemalloc])
  AS_IF([test -f "$soma_jemalloc/lib/libjemalloc_pic.a" && grep -q soma_je_ "$soma_jemalloc/include/jemalloc/jemalloc.h"],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$soma_jemalloc holds no libjemalloc_pic.a with the prefix soma_je_; ./quickstart makes one under build/jemalloc])])
  JEMALLOC_CFLAGS="-isystem $soma_jemalloc/include"
  JEMALLOC_LIBS="$soma_jemalloc/lib/libjemalloc_pic.a -lpthread -lm"
  soma_jemalloc_text="private ($soma_jemalloc)"
])
AM_CONDITIONAL([SOMA_JEMALLOC_PRIVATE], [test "x$soma_jemalloc" != xsystem])
AC_SUBST([JEMALLOC_CFLAGS])
AC_SUBST([JEMALLOC_LIBS])
])
