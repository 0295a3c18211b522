/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - lists of words, between commas and blanks */
#ifndef BASE_WORDS_H
#define BASE_WORDS_H

#include <stddef.h>
#include <string.h>

/*
 * Move *@at, somewhere before a word of the list, to its begin. Returns its
 * length; 0: there is none any more. The next one is sought from behind it.
 */
static inline size_t tei_word(const char **at)
{
	static const char between[] = ", ";

	*at += strspn(*at, between);
	return strcspn(*at, between);
}

#endif
