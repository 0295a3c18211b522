/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what mooncake_master can be told
 *
 * Names, units and defaults are Mooncake's. Flags of Mooncake's master that
 * have no meaning here are accepted, so that existing command lines work, and
 * are named in one warning; flags nobody knows are errors.
 */
#ifndef STORE_SERVER_SETTINGS_H
#define STORE_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"

#define TEI_SERVER_IGNORED_MAX 96

struct tei_server_settings {
	uint64_t port; /* 0: kernel's choice */
	char *rpc_address;
	uint64_t metrics_port; /* 0: kernel's choice */
	char *metrics_host;
	uint64_t default_kv_lease_ttl; /* ms, like the two below */
	uint64_t client_ttl;
	uint64_t put_start_discard_timeout_sec;
	double eviction_high_watermark_ratio;
	double eviction_ratio;
	uint64_t v;
	bool insecure;
	/* Rows without meaning here, in their order: text, and switches. */
	char *ignored_text[TEI_SERVER_IGNORED_MAX];
	bool ignored_switch[TEI_SERVER_IGNORED_MAX];
};

/* The registry's rows over struct tei_server_settings. */
extern const struct tei_setting tei_server_rows[];
extern const size_t tei_server_n_rows;

/* NULL for every spelling of the wildcard, else @address. */
const char *tei_server_host(const char *address);

#endif
