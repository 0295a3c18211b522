/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module_redis.c - the redis protocol for directories, by hiredis
 *
 * hiredis's own time-out begins anew with every byte, and it takes an answer of
 * any size: here it only formats and parses, while we wait for the socket with
 * one deadline, count the bytes and refuse answers that are lists, of which we
 * ask for none.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <hiredis/hiredis.h>

#include "te/directory/module.h"

#define ANSWER_MAX 65536u

static uint64_t now_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int fail_call(char *error, int rc, const char *words)
{
	(void)snprintf(error, TEI_MODULE_ERROR_LEN, "%s", words);
	return rc;
}

/* Error code and text of hiredis' last error. */
static int fail_as(const redisContext *c, char *error)
{
	static const int errnos[] = {
		[REDIS_ERR_IO] = -EIO,         [REDIS_ERR_OTHER] = -EIO,
		[REDIS_ERR_EOF] = -ECONNRESET, [REDIS_ERR_PROTOCOL] = -EPROTO,
		[REDIS_ERR_OOM] = -EPROTO,
	};
	size_t n = sizeof(errnos) / sizeof(errnos[0]);

	(void)fail_call(error, 0, c->errstr);
	if (c->err == REDIS_ERR_IO && errno == ECONNREFUSED)
		return -ECONNREFUSED;
	return c->err > 0 && (size_t)c->err < n ? errnos[c->err] : -EIO;
}

/* Waits until the socket can be read or written, or has an error: 0. */
static int await_events(const redisContext *c, short events, uint64_t until,
			char *error)
{
	struct pollfd p = {.fd = c->fd, .events = events};
	uint64_t now = now_ms();

	if (now >= until || poll(&p, 1, (int)(until - now)) <= 0)
		return fail_call(error, -ETIMEDOUT, "no answer in time");
	return 0;
}

/* ---- connecting ---- */

/* NULL makes hiredis give up with "out of memory". */
static void *refuse_list(const redisReadTask *task, int n)
{
	(void)task;
	(void)n;
	return NULL;
}

/* hiredis's own, but for lists. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static redisReplyObjectFunctions functions;

static void init_functions(void)
{
	redisReader *reader = redisReaderCreate();

	if (reader) {
		functions = *reader->fn;
		redisReaderFree(reader);
	}
	functions.createArray = refuse_list;
}

static int start_hiredis(void)
{
	pthread_once(&once, init_functions);
	return functions.createString ? 0 : -ENOMEM;
}

static int finish_connect(redisContext *c, uint64_t until, char *error)
{
	socklen_t len = sizeof(int);
	int err = 0;
	int rc = await_events(c, POLLOUT, until, error);

	if (rc)
		return rc;
	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	return err ? fail_call(error, -err, strerror(err)) : 0;
}

static int open_conn(const char *host, uint16_t port, uint32_t timeout_ms,
		     void **out, char error[TEI_MODULE_ERROR_LEN])
{
	uint64_t until = now_ms() + timeout_ms;
	redisContext *c;
	int rc;

	errno = 0;
	c = redisConnectNonBlock(host, port);
	if (!c)
		return fail_call(error, -ENOMEM, "out of memory");
	rc = c->err ? fail_as(c, error) : finish_connect(c, until, error);
	if (rc) {
		redisFree(c);
		return rc;
	}
	c->reader->fn = &functions;
	*out = c;
	return 0;
}

static void close_conn(void *conn)
{
	if (conn)
		redisFree(conn);
}

/* ---- calling ---- */

static int send_all(redisContext *c, uint64_t until, char *error)
{
	int rc, done = 0;

	while (!done) {
		rc = await_events(c, POLLOUT, until, error);
		if (rc)
			return rc;
		if (redisBufferWrite(c, &done))
			return fail_as(c, error);
	}
	return 0;
}

static int receive(redisContext *c, uint64_t until, redisReply **out,
		   char *error)
{
	void *reply = NULL;
	size_t size = 0;
	int rc;

	for (;;) {
		if (redisGetReplyFromReader(c, &reply))
			return fail_as(c, error);
		if (reply)
			break;
		if (size > ANSWER_MAX)
			return fail_call(error, -EMSGSIZE,
					 "the answer is too long");
		rc = await_events(c, POLLIN, until, error);
		if (rc)
			return rc;
		if (redisBufferRead(c))
			return fail_as(c, error);
		size = c->reader->len;
	}
	*out = reply;
	return 0;
}

static int take_text(const redisReply *reply, struct tei_redis_call *call)
{
	call->kind = TEI_REDIS_TEXT;
	if ((size_t)reply->len > call->room)
		return fail_call(call->error, -EMSGSIZE,
				 "the value is too long");
	memcpy(call->answer, reply->str, (size_t)reply->len);
	call->len = (size_t)reply->len;
	return 0;
}

static int take_reply(const redisReply *reply, struct tei_redis_call *call)
{
	switch (reply->type) {
	case REDIS_REPLY_NIL:
		call->kind = TEI_REDIS_NIL;
		return 0;
	case REDIS_REPLY_INTEGER:
		call->kind = TEI_REDIS_NUMBER;
		call->number = reply->integer;
		return 0;
	case REDIS_REPLY_STATUS:
	case REDIS_REPLY_STRING:
		return take_text(reply, call);
	case REDIS_REPLY_ERROR:
		return fail_call(call->error, -EREMOTEIO, reply->str);
	default:
		return fail_call(call->error, -EPROTO,
				 "an answer of another kind");
	}
}

static int call_conn(void *conn, struct tei_redis_call *call)
{
	uint64_t until = now_ms() + call->timeout_ms;
	redisContext *c = conn;
	redisReply *reply = NULL;
	int rc;

	call->len = 0;
	call->error[0] = '\0';
	if (redisAppendCommandArgv(c, call->n, (const char **)call->args,
				   call->lens))
		return fail_as(c, call->error);
	rc = send_all(c, until, call->error);
	if (!rc)
		rc = receive(c, until, &reply, call->error);
	if (rc || !reply)
		return rc ? rc : -EPROTO;
	rc = take_reply(reply, call);
	freeReplyObject(reply);
	return rc;
}

extern const struct tei_redis_module tei_module_redis;
TEI_MODULE_EXPORT const struct tei_redis_module tei_module_redis = {
	.base = {.module = {TEI_DIRECTORY_ABI, start_hiredis},
		 .close = close_conn},
	.open = open_conn,
	.call = call_conn,
};
