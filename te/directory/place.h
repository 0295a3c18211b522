/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h - where a directory is: what the setting metadata_server says
 *
 *   "" or P2PHANDSHAKE          none
 *   http://host[:80]/metadata   a metadata server (te-metad, mooncake_master)
 *   etcd://a[:2379];b;c         etcd, by its HTTP gateway; "host:port" alone
 *                               means the same
 *   redis://host[:6379]
 */
#ifndef TE_DIRECTORY_PLACE_H
#define TE_DIRECTORY_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net.h"

#define TEI_PLACE_HOSTS     8
#define TEI_PLACE_PATH_MAX  256
#define TEI_PLACE_ERROR_LEN 160

enum tei_place_kind {
	TEI_PLACE_NONE,
	TEI_PLACE_HTTP,
	TEI_PLACE_ETCD,
	TEI_PLACE_REDIS,
};

struct tei_place {
	enum tei_place_kind kind;
	bool tls; /* of HTTP */
	uint32_t n;
	struct {
		char host[TEI_HOST_LEN_MAX + 1];
		uint16_t port;
	} at[TEI_PLACE_HOSTS];
	char path[TEI_PLACE_PATH_MAX]; /* of HTTP, "/metadata" */
};

/* NULL is "". -EINVAL, and what is wrong stands in @error. */
int tei_place_parse(const char *text, struct tei_place *out,
		    char error[TEI_PLACE_ERROR_LEN]);

#endif
