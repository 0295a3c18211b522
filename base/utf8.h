/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - what is text, of bytes from outside */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes the character at @at[len] has, len > 0; 0: it is none. */
size_t tei_utf8_len(const void *at, size_t len);
/* All of bytes[len] is. */
bool tei_utf8_is_text(const void *bytes, size_t len);

#endif
