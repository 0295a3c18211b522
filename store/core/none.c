/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - nothing here yet */
typedef int tei_none;
