# SOMA_BACKENDS: where backend modules are installed and looked for.
AC_DEFUN([SOMA_BACKENDS], [
AC_SEARCH_LIBS([dlopen], [dl], [], [AC_MSG_ERROR([dlopen not found])])
backenddir='${libdir}/soma'
AC_SUBST([backenddir])
])
