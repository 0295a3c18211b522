/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.h - what a directory keeps of an engine: where it is, and which life
 *
 * Only hints: whoever answers at an address says himself who he is. Written as
 * compact JSON under the keys that tools of this field look for (docs/wire.md).
 */
#ifndef TE_DIRECTORY_ENTRY_H
#define TE_DIRECTORY_ENTRY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <te/te.h>

#include "base/net.h"

#define TEI_ENTRY_ADDRESSES 4
#define TEI_ENTRY_MAX       4096 /* bytes of the JSON */
/* Hexadecimal digits of an incarnation. */
#define TEI_ENTRY_LIFE_LEN (2 * TE_INCARNATION_LEN)
#define TEI_ENTRY_KEY_MAX  1024 /* bytes of a key, with the 0 */

struct tei_entry {
	char host[TEI_HOST_LEN_MAX + 1]; /* a name or an address */
	uint16_t port;
	uint32_t n; /* numeric addresses, the best first; 0: host alone */
	char address[TEI_ENTRY_ADDRESSES][INET6_ADDRSTRLEN];
	char life[TEI_ENTRY_LIFE_LEN + 1]; /* "": not known */
};

/* Compact JSON with a 0 behind it. Its length, -ENOMEM, -ENOBUFS. */
int tei_entry_encode(const struct tei_entry *entry, char out[TEI_ENTRY_MAX]);
/* -EBADMSG: these are other words. -ENOMEM. */
int tei_entry_decode(const char *text, size_t len, struct tei_entry *out);

void tei_entry_life(const uint8_t incarnation[TE_INCARNATION_LEN],
		    char out[TEI_ENTRY_LIFE_LEN + 1]);

/*
 * "mooncake/rpc_meta/NAME", with "CLUSTER/" after the first part when @cluster
 * is neither NULL nor "". -ENAMETOOLONG.
 */
int tei_entry_key(const char *cluster, const char *name,
		  char out[TEI_ENTRY_KEY_MAX]);

/*
 * Returns up to @max addresses to connect to: how many, or as tei_resolve().
 * Blocks when the host is a name.
 */
int tei_entry_addresses(const struct tei_entry *entry, struct tei_address *out,
			int max);

/*
 * Tells whether the engine that wrote @entry is surely gone: every address
 * refuses connections. Silence is no proof. Blocks: @timeout_ms at most, and
 * for the resolver when the host is a name.
 */
bool tei_entry_is_refused(const struct tei_entry *entry, uint64_t timeout_ms);

#endif
