/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - UTF-8 from outside, and what of it a line may show */
#include "base/text.h"

size_t tei_utf8_len(const void *bytes, size_t len)
{
	static const unsigned char least[] = {0, 0, 0x80, 0xa0, 0x90};
	const unsigned char *at = bytes;
	size_t n = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

	if (n == 1)
		return 1;
	if (at[0] < 0xc2 || at[0] > 0xf4 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 || at[0] == 0xf0) && at[1] < least[n])
		return 0; /* a shorter form exists */
	if ((at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0; /* half of a pair, or beyond the last */
	return n;
}

bool tei_utf8_is_text(const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	size_t n;

	for (; len; at += n, len -= n) {
		n = tei_utf8_len(at, len);
		if (!n)
			return false;
	}
	return true;
}

/*
 * Controls of two and three bytes: U+0080..U+009F; U+2028 and U+2029, which end
 * a line; U+202A..U+202E and U+2066..U+2069, which turn its direction round.
 */
static bool is_control(const unsigned char *at, size_t len)
{
	if (len == 1)
		return at[0] < ' ' || at[0] == 0x7f;
	if (len == 2)
		return at[0] == 0xc2 && at[1] < 0xa0;
	if (len != 3 || at[0] != 0xe2)
		return false;
	return (at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae) ||
	       (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
}

size_t tei_text_shown_len(const void *at, size_t len)
{
	size_t n = tei_utf8_len(at, len);

	return n && !is_control(at, n) ? n : 0;
}

bool tei_text_is_shown(const char *text)
{
	size_t n;

	for (; *text; text += n) {
		bool is_plain = *text >= ' ' && *text < 0x7f;

		n = is_plain ? 1 : tei_text_shown_len(text, strnlen(text, 4));
		if (!n)
			return false;
	}
	return true;
}

void tei_text_clean(char *text)
{
	size_t n;

	for (; *text; text += n) {
		n = tei_text_shown_len(text, strnlen(text, 4));
		if (n)
			continue;
		*text = '?';
		n = 1;
	}
}
