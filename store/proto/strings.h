/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strings.h - what is looked at in messages before they are decoded
 *
 * A C string ends at its first 0: with bytes behind it, a string of a message
 * would be read as another one, for instance as the empty pattern, which
 * matches every key.
 */
#ifndef STORE_PROTO_STRINGS_H
#define STORE_PROTO_STRINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

/*
 * Most fields of a message with those that it holds, known or not. Columns of
 * numbers are one each, as they are packed; a batch may name a group for each
 * of its 4,096 keys.
 */
#define TES_FIELDS_MAX 4608u

/*
 * Tells whether no string in the message, nor in those that it holds, has a 0
 * byte, and whether it can be decoded in a short time: it has at most
 * TES_FIELDS_MAX fields, and @numbers bytes of columns of varints. False also
 * for what is no message. @body may be NULL when @len is 0.
 */
bool tes_strings_whole(const ProtobufCMessageDescriptor *type, const void *body,
		       size_t len, size_t numbers);

/*
 * Tells whether a request has more keys than @than: lengths in field 2,
 * key_lens, which all batches have; @is_offer: that of its objects. Of what
 * tes_strings_whole() refuses, either.
 */
bool tes_has_more_keys(const void *body, size_t len, bool is_offer,
		       size_t than);

/*
 * Finds field 1 of a message that begins with it, and where it is bytes; *out
 * points into @body. Returns how many bytes of the message it takes; 0: it does
 * not begin so.
 */
size_t tes_first_bytes(const void *body, size_t len, ProtobufCBinaryData *out);

#endif
