/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strings.c - what is looked at in messages before they are decoded
 *
 * The decoder gives no lengths of strings, so the bytes are looked through once
 * more, from field to field. Stricter than the decoder, never laxer. What would
 * keep the decoder busy for long is refused here: it takes 5 ns for each byte
 * of tiny fields, and 1 or 2 ns for one of a column of numbers.
 */
#include "store/proto/strings.h"

#include <stdint.h>
#include <string.h>

#define VARINT_MAX 10 /* bytes */

enum wire {
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
	WIRE_32 = 5,
};

struct span {
	const uint8_t *at, *end;
};

static bool take_varint(struct span *s, uint64_t *out)
{
	*out = 0;
	for (unsigned int i = 0; i < VARINT_MAX && s->at < s->end; i++) {
		uint8_t byte = *s->at++;

		*out |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Reads the value behind a tag; *out has its bytes, none for a number. */
static bool take_value(struct span *s, unsigned int wire, struct span *out)
{
	uint64_t n = 0;
	bool ok = true;

	if (wire == WIRE_VARINT) {
		ok = take_varint(s, &n);
		n = 0;
	} else if (wire == WIRE_BYTES) {
		ok = take_varint(s, &n);
	} else if (wire == WIRE_64) {
		n = 8;
	} else if (wire == WIRE_32) {
		n = 4;
	} else {
		return false;
	}
	if (!ok || n > (uint64_t)(s->end - s->at))
		return false;
	*out = (struct span){s->at, s->at + n};
	s->at += n;
	return true;
}

/* What a message may still have. */
struct rest {
	size_t fields, numbers;
};

static bool take(size_t *from, size_t n)
{
	bool enough = *from >= n;

	*from -= enough ? n : *from;
	return enough;
}

static bool message_whole(const ProtobufCMessageDescriptor *type, struct span s,
			  struct rest *rest);

/* NOLINTNEXTLINE(misc-no-recursion): no type of message holds itself */
static bool value_whole(const ProtobufCMessageDescriptor *type, uint64_t field,
			const struct span *value, struct rest *rest)
{
	const ProtobufCFieldDescriptor *f =
		protobuf_c_message_descriptor_get_field(type,
							(unsigned int)field);
	size_t len = (size_t)(value->end - value->at);

	if (!f)
		return true;
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		return !memchr(value->at, 0, len);
	case PROTOBUF_C_TYPE_MESSAGE:
		return message_whole(f->descriptor, *value, rest);
	case PROTOBUF_C_TYPE_BYTES:
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_FIXED64:
		return true;
	default:
		return take(&rest->numbers, len);
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): see above */
static bool message_whole(const ProtobufCMessageDescriptor *type, struct span s,
			  struct rest *rest)
{
	while (s.at < s.end) {
		struct span value;
		uint64_t tag;

		if (!take(&rest->fields, 1) || !take_varint(&s, &tag) ||
		    tag > UINT32_MAX || !take_value(&s, tag & 7, &value))
			return false;
		if ((tag & 7) == WIRE_BYTES &&
		    !value_whole(type, tag >> 3, &value, rest))
			return false;
	}
	return true;
}

bool tes_strings_whole(const ProtobufCMessageDescriptor *type, const void *body,
		       size_t len, size_t numbers)
{
	struct span s = {body, len ? (const uint8_t *)body + len : body};
	struct rest rest = {TES_FIELDS_MAX, numbers};

	return message_whole(type, s, &rest);
}

/* ---- keys of a batch ---- */

#define OBJECTS  2 /* field of an offer */
#define KEY_LENS 2

static size_t count_lens(struct span s, size_t most, size_t *fields)
{
	struct span value;
	size_t n = 0;
	uint64_t tag;

	while (n <= most && s.at < s.end && take(fields, 1) &&
	       take_varint(&s, &tag) && take_value(&s, tag & 7, &value)) {
		if (tag >> 3 != KEY_LENS)
			continue;
		n += (tag & 7) == WIRE_VARINT;
		if (value.end - value.at > (ptrdiff_t)(VARINT_MAX * most))
			return most + 1;
		for (; value.at < value.end; value.at++)
			n += *value.at < 0x80;
	}
	return n;
}

bool tes_has_more_keys(const void *body, size_t len, bool is_offer, size_t than)
{
	struct span s = {body, len ? (const uint8_t *)body + len : body}, value;
	size_t n = 0, fields = TES_FIELDS_MAX;
	uint64_t tag;

	if (!is_offer)
		return count_lens(s, than, &fields) > than;
	while (n <= than && s.at < s.end && take(&fields, 1) &&
	       take_varint(&s, &tag) && take_value(&s, tag & 7, &value))
		if (tag == (OBJECTS << 3 | WIRE_BYTES))
			n += count_lens(value, than, &fields);
	return n > than;
}

size_t tes_first_bytes(const void *body, size_t len, ProtobufCBinaryData *out)
{
	struct span s = {body, len ? (const uint8_t *)body + len : body};
	uint64_t tag, n;

	if (!len || !take_varint(&s, &tag) || tag != (1 << 3 | WIRE_BYTES) ||
	    !take_varint(&s, &n) || n > (uint64_t)(s.end - s.at))
		return 0;
	*out = (ProtobufCBinaryData){n, (uint8_t *)(uintptr_t)s.at};
	return (size_t)(s.at - (const uint8_t *)body) + n;
}
