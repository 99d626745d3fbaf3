# SPDX-License-Identifier: Apache-2.0
# SOMA_TOOLS: what the command needs: zlib, jansson, cairo, SQLite.
AC_DEFUN([SOMA_TOOLS], [
PKG_CHECK_MODULES([ZLIB], [zlib])
PKG_CHECK_MODULES([JANSSON], [jansson >= 2.11])
PKG_CHECK_MODULES([CAIRO], [cairo-svg cairo-png])
dnl Window functions, and settings against hostile databases.
PKG_CHECK_MODULES([SQLITE], [sqlite3 >= 3.31], [],
	[AC_MSG_ERROR([the command reads Nsight Systems exports with SQLite 3.31 or later, and pkg-config finds none ($SQLITE_PKG_ERRORS); install it (Debian and Ubuntu: libsqlite3-dev)])])
])
