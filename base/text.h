/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - UTF-8 from outside, what of it a line may show, lists of words
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Bytes of the character at @at[len], len > 0; 0: it is not UTF-8. */
size_t tei_utf8_len(const void *at, size_t len);
/* All of bytes[len] is UTF-8. */
bool tei_utf8_is_text(const void *bytes, size_t len);

/*
 * Bytes of the character at @at[len], len > 0, when a line of a log or a list
 * may show it. 0: it is a control character (C0, delete, C1, which terminals
 * obey), ends a line or turns its direction round, or is not UTF-8.
 */
size_t tei_text_shown_len(const void *at, size_t len);
/* All of @text may be shown. */
bool tei_text_is_shown(const char *text);
/* Write '?' over each byte that may not be shown: what a peer said. */
void tei_text_clean(char *text);

/*
 * A list of words between commas and blanks: move *@at, somewhere before a
 * word, to its begin. Returns its length; 0: there is none any more. The next
 * call starts behind that word.
 */
static inline size_t tei_word(const char **at)
{
	static const char between[] = ", ";

	*at += strspn(*at, between);
	return strcspn(*at, between);
}

/* Tells whether a list of names, or NULL, means all: it is empty, or "all". */
static inline bool tei_words_mean_all(const char *list)
{
	return !list || !*list || !strcmp(list, "all");
}

#endif
