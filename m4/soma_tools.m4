# SPDX-License-Identifier: Apache-2.0
# SOMA_TOOLS: what the command needs: zlib, jansson, cairo.
AC_DEFUN([SOMA_TOOLS], [
PKG_CHECK_MODULES([ZLIB], [zlib])
PKG_CHECK_MODULES([JANSSON], [jansson >= 2.11])
PKG_CHECK_MODULES([CAIRO], [cairo-svg cairo-png])
])
