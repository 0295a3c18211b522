/* SPDX-License-Identifier: Apache-2.0 */
/* module_curl.c - HTTP for directories, by libcurl; a module of its own */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>

#include "te/directory/module.h"

#define LEAVE_S   2
#define TOKEN_MAX 128
#define BEARER    "Authorization: Bearer "

/*
 * A process may exit while a thread of ours is in a call. OpenSSL then frees
 * what a call with TLS uses, so exiting waits for those, and none begins.
 */
static pthread_rwlock_t tls_calls = PTHREAD_RWLOCK_INITIALIZER;
static CURLcode started;

static void cleanup_curl(void)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LEAVE_S;
	(void)pthread_rwlock_timedwrlock(&tls_calls, &until);
}

static void start_curl(void)
{
	started = curl_global_init(CURL_GLOBAL_DEFAULT);
	/* Registered after OpenSSL's own, so called before it. */
	if (!started && atexit(cleanup_curl))
		started = CURLE_OUT_OF_MEMORY;
}

static int init_curl(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start_curl);
	return started ? -ENOMEM : 0;
}

static void *open_client(void)
{
	return curl_easy_init();
}

/* Closes a connection with TLS, too, if the process does not exit. */
static void close_client(void *client)
{
	if (pthread_rwlock_tryrdlock(&tls_calls))
		return;
	curl_easy_cleanup(client);
	pthread_rwlock_unlock(&tls_calls);
}

/* Anything but all of it makes libcurl end the transfer. */
static size_t append_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct tei_http_call *call = arg;

	if (n > call->room - call->len)
		return size == 1 ? CURL_WRITEFUNC_ERROR : 0;
	memcpy(call->answer + call->len, bytes, n);
	call->len += n;
	return n;
}

/* Sets the options of a call. It uses no proxy: directories are near, and
 * http_proxy is meant for what is far. */
static CURLcode set_up(CURL *curl, struct tei_http_call *call,
		       struct curl_slist *headers, char *error)
{
	CURLcode rc = 0;

#define SET(option, value) \
	(rc = rc ? rc : curl_easy_setopt(curl, option, value))
	SET(CURLOPT_ERRORBUFFER, error);
	SET(CURLOPT_URL, call->url);
	SET(CURLOPT_CUSTOMREQUEST, call->method);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_NOPROXY, "*");
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
	SET(CURLOPT_BUFFERSIZE, 16384L);
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_WRITEFUNCTION, append_body);
	SET(CURLOPT_WRITEDATA, call);
	if (call->body) {
		SET(CURLOPT_POSTFIELDSIZE, (long)call->body_len);
		SET(CURLOPT_POSTFIELDS, call->body);
	}
#undef SET
	return rc;
}

static int to_errno(CURLcode rc)
{
	switch (rc) {
	case CURLE_OK:
		return 0;
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
		return -EHOSTUNREACH;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_WRITE_ERROR:
		return -EMSGSIZE;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_GOT_NOTHING:
	case CURLE_PARTIAL_FILE:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return -EPROTO;
	default:
		return -EIO;
	}
}

static CURLcode perform(CURL *curl, const struct tei_http_call *call)
{
	bool tls = !strncmp(call->url, "https", 5);
	CURLcode rc;

	if (tls && pthread_rwlock_tryrdlock(&tls_calls))
		return CURLE_ABORTED_BY_CALLBACK; /* the process exits */
	rc = curl_easy_perform(curl);
	if (tls)
		pthread_rwlock_unlock(&tls_calls);
	return rc;
}

static int call_url(void *client, struct tei_http_call *call)
{
	/*
	 * No "Expect: 100-continue": it costs a second where nobody knows it.
	 */
	static const char *const lines[] = {"Expect:",
					    "Content-Type: application/json"};
	struct curl_slist expect = {.data = (char *)(uintptr_t)lines[0]};
	struct curl_slist type = {.data = (char *)(uintptr_t)lines[1],
				  .next = &expect};
	char bearer[TOKEN_MAX + sizeof(BEARER)];
	struct curl_slist token = {.data = bearer, .next = &type};
	char error[CURL_ERROR_SIZE] = "";
	CURLcode rc;

	call->len = 0;
	call->status = 0;
	call->error[0] = '\0';
	curl_easy_reset(client); /* what it connected to stays */
	(void)snprintf(bearer, sizeof(bearer), BEARER "%s",
		       call->token ? call->token : "");
	rc = set_up(client, call, call->token ? &token : &type, error);
	if (!rc)
		rc = perform(client, call);
	if (!rc)
		rc = curl_easy_getinfo(client, CURLINFO_RESPONSE_CODE,
				       &call->status);
	if (rc)
		(void)snprintf(call->error, sizeof(call->error), "%.*s",
			       TEI_MODULE_ERROR_LEN - 1,
			       *error ? error : curl_easy_strerror(rc));
	curl_easy_setopt(client, CURLOPT_ERRORBUFFER, NULL);
	return to_errno(rc);
}

extern const struct tei_http_module tei_module_curl;
TEI_MODULE_EXPORT const struct tei_http_module tei_module_curl = {
	.base = {.module = {TEI_DIRECTORY_ABI, init_curl},
		 .close = close_client},
	.open = open_client,
	.call = call_url,
};
