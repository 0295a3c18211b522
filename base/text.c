/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - UTF-8 from outside */
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
