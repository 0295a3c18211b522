/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis.c - redis as directory
 *
 * Values expire by themselves. Conditions are scripts of one comparison, which
 * redis runs as a whole.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "te/directory/directory.h"

#define REPLACE                                                    \
	"if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end " \
	"redis.call('SET',KEYS[1],ARGV[2],'PX',ARGV[3]) return 1"
#define REFRESH                                                    \
	"if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end " \
	"return redis.call('PEXPIRE',KEYS[1],ARGV[2])"
#define REMOVE                                                     \
	"if redis.call('GET',KEYS[1])~=ARGV[1] then return 0 end " \
	"return redis.call('DEL',KEYS[1])"

static void arg(struct tei_redis_call *call, const char *text)
{
	call->args[call->n] = text;
	call->lens[call->n++] = strlen(text);
}

static int call_open(struct tei_dir_link *link, struct tei_redis_call *call)
{
	const struct tei_redis_module *module = link->dir->module;
	int rc;

	call->timeout_ms = tei_dir_link_left(link, 1);
	if (!call->timeout_ms)
		return tei_dir_link_fail(link, -ETIMEDOUT, "no time is left");
	rc = module->call(link->client, call);
	return rc ? tei_dir_link_fail(link, rc, "%s", call->error) : 0;
}

static int log_in(struct tei_dir_link *link)
{
	const struct tei_directory *dir = link->dir;
	struct tei_redis_call call = {0};
	char text[64], number[24];

	call.answer = text;
	call.room = sizeof(text);
	if (dir->password) {
		arg(&call, "AUTH");
		if (dir->user)
			arg(&call, dir->user);
		arg(&call, dir->password);
		if (call_open(link, &call))
			return -EREMOTEIO;
		call.n = 0;
	}
	if (!dir->db)
		return 0;
	(void)snprintf(number, sizeof(number), "%llu",
		       (unsigned long long)dir->db);
	arg(&call, "SELECT");
	arg(&call, number);
	return call_open(link, &call);
}

static int open_link(struct tei_dir_link *link)
{
	const struct tei_redis_module *module = link->dir->module;
	uint32_t left = tei_dir_link_left(link, 1);
	int rc;

	if (!left)
		return tei_dir_link_fail(link, -ETIMEDOUT, "no time is left");
	rc = module->open(link->dir->place.at[0].host,
			  link->dir->place.at[0].port, left, &link->client,
			  link->error);
	return rc ? rc : log_in(link);
}

static int do_call(struct tei_dir_link *link, struct tei_redis_call *call)
{
	int rc = link->client ? 0 : open_link(link);

	return rc ? rc : call_open(link, call);
}

static int get_value(struct tei_dir_link *link, const char *key, char *value)
{
	struct tei_redis_call call = {.answer = value,
				      .room = TEI_ENTRY_MAX - 1};
	int rc;

	arg(&call, "GET");
	arg(&call, key);
	rc = do_call(link, &call);
	if (rc)
		return rc;
	if (call.kind == TEI_REDIS_NIL)
		return -ENOENT;
	if (call.kind != TEI_REDIS_TEXT)
		return tei_dir_link_fail(link, -EPROTO, "GET gives no text");
	value[call.len] = '\0';
	return (int)call.len;
}

static void ttl_text(const struct tei_dir_link *link, char out[24])
{
	(void)snprintf(out, 24, "%llu", (unsigned long long)link->dir->ttl_ms);
}

/* Runs one of the scripts, which returns 1 or 0, with up to three arguments. */
static int run_script(struct tei_dir_link *link, const char *script,
		      const char *key, const char *const args[])
{
	struct tei_redis_call call = {0};
	int rc;

	arg(&call, "EVAL");
	arg(&call, script);
	arg(&call, "1");
	arg(&call, key);
	for (; *args; args++)
		arg(&call, *args);
	rc = do_call(link, &call);
	if (rc)
		return rc;
	if (call.kind != TEI_REDIS_NUMBER)
		return tei_dir_link_fail(link, -EPROTO, "EVAL gives no number");
	return call.number == 1 ? 0 : -EEXIST;
}

/* SET answers "OK", or nil when there is a value already. */
static int put_first(struct tei_dir_link *link, const char *key,
		     const char *value)
{
	char ttl[24], text[16];
	struct tei_redis_call call = {.answer = text, .room = sizeof(text)};
	int rc;

	ttl_text(link, ttl);
	arg(&call, "SET");
	arg(&call, key);
	arg(&call, value);
	arg(&call, "NX");
	arg(&call, "PX");
	arg(&call, ttl);
	rc = do_call(link, &call);
	if (rc)
		return rc;
	return call.kind == TEI_REDIS_NIL ? -EEXIST : 0;
}

static int put_value(struct tei_dir_link *link, const char *key,
		     const char *value, const char *old)
{
	char ttl[24];
	const char *const args[] = {old, value, ttl, NULL};

	ttl_text(link, ttl);
	return old ? run_script(link, REPLACE, key, args)
		   : put_first(link, key, value);
}

static int refresh(struct tei_dir_link *link, const char *key,
		   const char *value)
{
	char ttl[24];
	const char *const args[] = {value, ttl, NULL};

	ttl_text(link, ttl);
	return run_script(link, REFRESH, key, args);
}

static int remove_key(struct tei_dir_link *link, const char *key,
		      const char *value)
{
	const char *const args[] = {value, NULL};

	return run_script(link, REMOVE, key, args);
}

const struct tei_directory_ops tei_directory_redis = {
	.module = "te_directory_redis",
	.symbol = "tei_module_redis",
	.get = get_value,
	.put = put_value,
	.refresh = refresh,
	.remove = remove_key,
};
