/* SPDX-License-Identifier: Apache-2.0 */
/* version.c - version of the library that is loaded */
#include <te/version.h>

const char *te_version(void)
{
	return TE_VERSION;
}
