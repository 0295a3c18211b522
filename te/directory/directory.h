/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory.h - names that are not host:port, turned into addresses by a
 * service
 *
 * A directory maps a name to an address and an incarnation, nothing else, and
 * what it says is a hint: the peer's own hello decides. The engine works
 * without it; only names without a port need it.
 *
 * A tei_directory says where it is and how to speak to it, is never changed and
 * is shared by the threads that use it: those of look-ups and the publisher's.
 * Each of them has a tei_dir_link of its own. All calls block, bounded by
 * metadata_timeout; none runs on a control thread.
 */
#ifndef TE_DIRECTORY_DIRECTORY_H
#define TE_DIRECTORY_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/net.h"
#include "te/directory/entry.h"
#include "te/directory/module.h"

struct tei_address;
struct tei_config;
struct tei_dir_link;
struct tei_lookup;
struct tei_loop;

/* ---- where a directory is: what the setting metadata_server says ---- */

/*
 *   "" or P2PHANDSHAKE          none
 *   http://host[:80]/metadata   a metadata server (te-metad, mooncake_master)
 *   etcd://a[:2379];b;c         etcd, by its HTTP gateway; "host:port" alone
 *                               means the same
 *   redis://host[:6379]
 */

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

/*
 * Operations of one kind of service. Values are bytes without 0. Errors as
 * those of modules, with a line in link->error; after one the link is closed.
 */
struct tei_directory_ops {
	const char *module, *symbol;
	/* @value[TEI_ENTRY_MAX]; its length, or -ENOENT. */
	int (*get)(struct tei_dir_link *link, const char *key, char *value);
	/*
	 * Write @value, to vanish after ttl_ms unless it is refreshed. @old:
	 * only in place of this one (NULL: of none). -EEXIST: there is another.
	 * -EACCES: @old was written by another user, or on another host.
	 */
	int (*put)(struct tei_dir_link *link, const char *key,
		   const char *value, const char *old);
	/* Let @value live on. -ENOENT, -EEXIST: it is not there any more. */
	int (*refresh)(struct tei_dir_link *link, const char *key,
		       const char *value);
	/* Remove @value. -ENOENT, -EEXIST: it is not there. */
	int (*remove)(struct tei_dir_link *link, const char *key,
		      const char *value);
};

extern const struct tei_directory_ops tei_directory_http;
extern const struct tei_directory_ops tei_directory_etcd;
extern const struct tei_directory_ops tei_directory_redis;

#define TEI_DIR_SECRET_LEN 32
#define TEI_DIR_TOKEN_LEN  (2 * TEI_DIR_SECRET_LEN) /* digits */

struct tei_directory {
	atomic_int refs;
	const struct tei_directory_ops *ops;
	const void *module; /* of ops->symbol: begins with tei_client_module */
	struct tei_place place;
	char *text, *cluster, *user, *password;
	uint64_t db, ttl_ms, timeout_ms;
	uint8_t secret[TEI_DIR_SECRET_LEN]; /* tei_dir_secret(); of HTTP */
};

struct tei_dir_link {
	const struct tei_directory *dir;
	void *client;   /* the module's; NULL: not open */
	uint64_t until; /* ms, of the call */
	uint32_t at;    /* of place.at: the one that worked last */
	int64_t lease;  /* etcd's, 0: none */
	char error[TEI_MODULE_ERROR_LEN];
};

/*
 * Opens the directory of the settings; *out is NULL when they name none, or
 * when the module cannot be loaded (warned of). -EINVAL (logged), -ENOMEM.
 */
int tei_directory_open(const struct tei_config *config,
		       struct tei_directory **out);
struct tei_directory *tei_directory_get(struct tei_directory *dir);
void tei_directory_put(struct tei_directory *dir); /* NULL is fine */

void tei_dir_link_init(struct tei_dir_link *link,
		       const struct tei_directory *dir);
void tei_dir_link_close(struct tei_dir_link *link);
/* A call begins: it has metadata_timeout. */
void tei_dir_link_begin(struct tei_dir_link *link);
/* ms that are left, 0: it is over. Divided by @parts. */
uint32_t tei_dir_link_left(const struct tei_dir_link *link, uint32_t parts);
/* Prints like snprintf() into link->error; returns @rc. */
int tei_dir_link_fail(struct tei_dir_link *link, int rc, const char *format,
		      ...) __attribute__((format(printf, 3, 4)));

/*
 * The secret of this user on this host that tokens are made of, or one of this
 * process. -EIO: no random bytes.
 */
int tei_dir_secret(uint8_t out[TEI_DIR_SECRET_LEN]);
/*
 * Makes the token that shows a metadata server that the entry @key is ours. An
 * engine that this user starts again has the same. -ENOMEM, -ECANCELED (the
 * process exits).
 */
int tei_dir_token(const struct tei_directory *dir, const char *key,
		  char out[TEI_DIR_TOKEN_LEN + 1]);

/*
 * Find the addresses of @name on a thread of its own; as tei_lookup_start().
 * What is not there, or not reached, is -ECONNREFUSED.
 */
int tei_directory_look_up(struct tei_directory *dir, struct tei_loop *loop,
			  const char *name,
			  void (*fn)(void *arg, const struct tei_address *to,
				     int n),
			  void *arg, struct tei_lookup **out);

#endif
