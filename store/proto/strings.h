/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strings.h - strings of messages hold no 0 byte
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
 * Tells whether no string in the message, nor in those that it holds, has a 0
 * byte; false also for what is no message. @body may be NULL when @len is 0.
 */
bool tes_strings_whole(const ProtobufCMessageDescriptor *type, const void *body,
		       size_t len);

/*
 * Counts the keys of a request: the lengths in field 2, key_lens, which all
 * batches have; @is_offer: that of its objects. What does not decode has some
 * number of them.
 */
size_t tes_count_keys(const void *body, size_t len, bool is_offer);

#endif
