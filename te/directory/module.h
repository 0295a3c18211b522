/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - what is loaded only by those who use a directory
 *
 * libcurl and hiredis bring some twenty libraries with them, so they are needed
 * by a module each (base/module.h), which carries words and knows nothing of
 * directories.
 *
 * Threads: one per client or connection at a time. Each call blocks for
 * timeout_ms at most, but for a resolver that hangs. Errors are negative
 * errnos, with a line in `error`: -ECONNREFUSED, -EHOSTUNREACH, -ETIMEDOUT,
 * -EMSGSIZE (no room for the answer), -EPROTO (not understood), -ENOMEM, -EIO.
 */
#ifndef TE_DIRECTORY_MODULE_H
#define TE_DIRECTORY_MODULE_H

#include <stddef.h>
#include <stdint.h>

#include "base/module.h"

#define TEI_DIRECTORY_ABI 3u

/* Head of both tables. */
struct tei_client_module {
	struct tei_module module;
	void (*close)(void *client);
};

struct tei_http_call {
	const char *method; /* GET, PUT, POST, DELETE */
	const char *url;
	const char *body; /* body[body_len]; NULL: none */
	size_t body_len;
	const char *token; /* to be shown, up to 128 bytes; NULL: none */
	char *answer;      /* answer[room] */
	size_t room, len;
	long status;
	uint32_t timeout_ms;
	char error[TEI_MODULE_ERROR_LEN];
};

/* te_directory_curl.so: tei_module_curl */
struct tei_http_module {
	struct tei_client_module base;
	void *(*open)(void); /* NULL: no memory */
	int (*call)(void *client, struct tei_http_call *call);
};

enum tei_redis_kind {
	TEI_REDIS_NIL,
	TEI_REDIS_NUMBER,
	TEI_REDIS_TEXT,
};

#define TEI_REDIS_ARGS 8

struct tei_redis_call {
	const char *args[TEI_REDIS_ARGS];
	size_t lens[TEI_REDIS_ARGS];
	int n;
	char *answer; /* of kind TEXT: answer[room] */
	size_t room, len;
	long long number;
	enum tei_redis_kind kind;
	uint32_t timeout_ms;
	char error[TEI_MODULE_ERROR_LEN];
};

/* te_directory_redis.so: tei_module_redis */
struct tei_redis_module {
	struct tei_client_module base;
	int (*open)(const char *host, uint16_t port, uint32_t timeout_ms,
		    void **out, char error[TEI_MODULE_ERROR_LEN]);
	/*
	 * -EREMOTEIO: the server answers with an error, in `error`; the
	 * connection is still good, as it is not after any other.
	 */
	int (*call)(void *conn, struct tei_redis_call *call);
};

#endif
