/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c - little-endian reader and writer that cannot run past the end */
#include "base/bytes.h"

#include <string.h>

void tei_reader_init(struct tei_reader *r, const void *bytes, size_t len)
{
	r->at = bytes;
	r->end = r->at + len;
	r->bad = false;
}

const void *tei_read_bytes(struct tei_reader *r, size_t len)
{
	const uint8_t *at = r->at;

	if (r->bad || (size_t)(r->end - r->at) < len) {
		r->bad = true;
		return NULL;
	}
	r->at += len;
	return at;
}

static uint64_t read_le(struct tei_reader *r, unsigned int n)
{
	const uint8_t *p = tei_read_bytes(r, n);
	uint64_t v = 0;

	for (unsigned int i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint8_t tei_read_u8(struct tei_reader *r)
{
	return (uint8_t)read_le(r, 1);
}

uint16_t tei_read_u16(struct tei_reader *r)
{
	return (uint16_t)read_le(r, 2);
}

uint32_t tei_read_u32(struct tei_reader *r)
{
	return (uint32_t)read_le(r, 4);
}

uint64_t tei_read_u64(struct tei_reader *r)
{
	return read_le(r, 8);
}

bool tei_reader_done(const struct tei_reader *r)
{
	return !r->bad && r->at == r->end;
}

void tei_writer_init(struct tei_writer *w, void *bytes, size_t room)
{
	w->at = bytes;
	w->end = w->at + room;
	w->bad = false;
}

void tei_write_bytes(struct tei_writer *w, const void *bytes, size_t len)
{
	if (w->bad || (size_t)(w->end - w->at) < len) {
		w->bad = true;
		return;
	}
	if (len)
		memcpy(w->at, bytes, len);
	w->at += len;
}

static void write_le(struct tei_writer *w, uint64_t v, unsigned int n)
{
	uint8_t b[8];

	for (unsigned int i = 0; i < n; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	tei_write_bytes(w, b, n);
}

void tei_write_u8(struct tei_writer *w, uint8_t v)
{
	write_le(w, v, 1);
}

void tei_write_u16(struct tei_writer *w, uint16_t v)
{
	write_le(w, v, 2);
}

void tei_write_u32(struct tei_writer *w, uint32_t v)
{
	write_le(w, v, 4);
}

void tei_write_u64(struct tei_writer *w, uint64_t v)
{
	write_le(w, v, 8);
}

int tei_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_dash(size_t at)
{
	return at == 8 || at == 13 || at == 18 || at == 23;
}

void tei_id_text(const uint8_t id[TEI_ID_LEN], char out[TEI_ID_ROOM])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0, n = 0; i < TEI_ID_ROOM - 1; i++) {
		if (is_dash(i)) {
			out[i] = '-';
			continue;
		}
		out[i] = digits[n % 2 ? id[n / 2] & 15 : id[n / 2] >> 4];
		n++;
	}
	out[TEI_ID_ROOM - 1] = '\0';
}

bool tei_id_parse(const char *text, uint8_t out[TEI_ID_LEN])
{
	if (strlen(text) != TEI_ID_ROOM - 1)
		return false;
	for (size_t i = 0, n = 0; text[i]; i++) {
		int digit = tei_hex_digit(text[i]);

		if (is_dash(i) && text[i] == '-')
			continue;
		if (is_dash(i) || digit < 0)
			return false;
		out[n / 2] = (uint8_t)(out[n / 2] << 4 | digit);
		n++;
	}
	return true;
}
