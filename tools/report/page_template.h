/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools/report/page as one text, made at build time; "@DATA@" stands where the data goes.
 */
#ifndef SOMA_TOOLS_REPORT_PAGE_TEMPLATE_H
#define SOMA_TOOLS_REPORT_PAGE_TEMPLATE_H

extern const unsigned char page_template[];

#endif
