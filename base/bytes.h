/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bytes.h - little-endian reader and writer that cannot run past the end
 *
 * Read or write straight through and look at `bad` once at the end: after the
 * first overrun every read gives 0 and every write is dropped.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tei_reader {
	const uint8_t *at, *end;
	bool bad;
};

struct tei_writer {
	uint8_t *at, *end;
	bool bad;
};

void tei_reader_init(struct tei_reader *r, const void *bytes, size_t len);
uint8_t tei_read_u8(struct tei_reader *r);
uint16_t tei_read_u16(struct tei_reader *r);
uint32_t tei_read_u32(struct tei_reader *r);
uint64_t tei_read_u64(struct tei_reader *r);
/* Points into the input; NULL when bad. */
const void *tei_read_bytes(struct tei_reader *r, size_t len);
/* All read, nothing left, nothing bad. */
bool tei_reader_done(const struct tei_reader *r);

void tei_writer_init(struct tei_writer *w, void *bytes, size_t room);
void tei_write_u8(struct tei_writer *w, uint8_t v);
void tei_write_u16(struct tei_writer *w, uint16_t v);
void tei_write_u32(struct tei_writer *w, uint32_t v);
void tei_write_u64(struct tei_writer *w, uint64_t v);
void tei_write_bytes(struct tei_writer *w, const void *bytes, size_t len);

/* Half a byte: what a hexadecimal digit of either case is; -1: it is none. */
int tei_hex_digit(char c);

#define TEI_ID_LEN  16
#define TEI_ID_ROOM 37
/* Write an id as a UUID: 8-4-4-4-12 hex digits and a 0. */
void tei_id_text(const uint8_t id[TEI_ID_LEN], char out[TEI_ID_ROOM]);
/* The same backwards; false: @text is no id. */
bool tei_id_parse(const char *text, uint8_t out[TEI_ID_LEN]);

/*
 * Loads without a check, for hot paths: the caller knows that the bytes are
 * there. Any alignment.
 */

static inline uint32_t tei_load_u32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static inline uint64_t tei_load_u64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

static inline void tei_store_u32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

static inline void tei_store_u64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof(v));
}

#endif
