/* SPDX-License-Identifier: Apache-2.0 */
/* http_site.c - a small site on a loop's thread, and its peers */
#include "tests/unit/base/http_site.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/http.h"
#include "base/loop.h"
#include "tests/lib/dial.h"
#include "tests/lib/test.h"
#include "tests/lib/wait.h"

#define SOON_MS 60000

static struct tei_loop *loop;
static struct tei_http *http;
static uint64_t refused[TEI_HTTP_REFUSALS];
static uint16_t port;
static atomic_uint n_done;
char *site_answer;

/* ---- what the server serves ---- */

/* Parameters and body as they came: name=value lines, then the body. */
static int echo(const struct tei_http_request *r, struct tei_http_reply *reply,
		void *arg)
{
	assert_ptr_equal(arg, refused);
	for (size_t i = 0; i < r->n_params; i++) {
		evbuffer_add(reply->body, r->params[i].name,
			     r->params[i].name_len);
		evbuffer_add(reply->body, "=", 1);
		evbuffer_add(reply->body, r->params[i].value, r->params[i].len);
		evbuffer_add(reply->body, "\n", 1);
	}
	evbuffer_add(reply->body, r->body, r->len);
	return 200;
}

static int query(const struct tei_http_request *r, struct tei_http_reply *reply,
		 void *arg)
{
	size_t len;
	const char *value = tei_http_query(r, "key", &len);

	(void)arg;
	reply->type = "application/json";
	if (!value)
		return 404;
	evbuffer_add_printf(reply->body, "%zu:", len);
	evbuffer_add(reply->body, value, len);
	return 200;
}

/* Every second piece is empty, as if there was nothing to say in it, or yet. */
static int next_piece(struct evbuffer *out, void *state)
{
	unsigned int *i = state;
	char piece[SITE_PIECE];

	if ((*i)++ % 2 == 0)
		return *i % 4 == 1 ? 1 : TEI_HTTP_NOT_YET;
	memset(piece, 'a' + (int)(*i / 2 % 26), sizeof(piece));
	evbuffer_add(out, piece, sizeof(piece));
	return *i < 2 * SITE_PIECES;
}

static int broken_piece(struct evbuffer *out, void *state)
{
	(void)state;
	evbuffer_add(out, "lost", 4);
	return -EIO;
}

static void pieces_done(void *state)
{
	free(state);
	atomic_fetch_add(&n_done, 1);
}

static int pieces(const struct tei_http_request *r,
		  struct tei_http_reply *reply, void *arg)
{
	size_t len;

	(void)arg;
	evbuffer_add_printf(reply->body, "first\n");
	reply->more =
		tei_http_query(r, "broken", &len) ? broken_piece : next_piece;
	reply->done = pieces_done;
	reply->state = calloc(1, sizeof(unsigned int));
	assert_non_null(reply->state);
	return 200;
}

static const struct tei_http_route routes[] = {
	{TEI_HTTP_GET, "/echo", echo},   {TEI_HTTP_PUT, "/echo", echo},
	{TEI_HTTP_POST, "/echo", echo},  {TEI_HTTP_DELETE, "/echo", echo},
	{TEI_HTTP_GET, "/query", query}, {TEI_HTTP_GET, "/pieces", pieces},
};

static struct tei_http_config config = {
	.what = "test port",
	.host = "127.0.0.1",
	.routes = routes,
	.n_routes = TEST_COUNT(routes),
	.arg = refused,
	.body_max = SITE_BODY_MAX,
	.refused = refused,
};

static void start_on_loop(void *arg)
{
	*(int *)arg = tei_http_start(loop, &config, &port, &http);
}

static void stop_on_loop(void *arg)
{
	(void)arg;
	tei_http_stop(http);
	http = NULL;
}

void site_stop(void)
{
	tei_loop_do(loop, stop_on_loop, NULL);
}

void site_start(void)
{
	int rc = -1;

	tei_loop_do(loop, start_on_loop, &rc);
	assert_int_equal(rc, 0);
}

void site_start_as(bool insecure, const char *allow_host)
{
	site_stop();
	config.insecure = insecure;
	config.allow_host = allow_host;
	site_start();
}

void site_start_for(const char *allow_uids)
{
	site_stop();
	config.allow_uids = allow_uids;
	site_start();
}

static bool enough_are_done(void *n)
{
	return atomic_load(&n_done) >= *(unsigned int *)n;
}

unsigned int site_n_done(void)
{
	return atomic_load(&n_done);
}

void site_await_done(unsigned int n)
{
	assert_true(test_wait_until(enough_are_done, &n, SOON_MS));
}

int site_set_up(void **state)
{
	int rc = -1;

	(void)state;
	site_answer = malloc(SITE_ROOM + 1);
	if (!site_answer || tei_loop_create("http", &loop))
		return -1;
	tei_loop_do(loop, start_on_loop, &rc);
	return rc;
}

int site_tear_down(void **state)
{
	(void)state;
	if (http)
		site_stop();
	tei_loop_stop(loop);
	tei_loop_destroy(loop);
	free(site_answer);
	return 0;
}

static void read_count(void *arg)
{
	unsigned int *why = arg;

	*why = (unsigned int)refused[*why];
}

unsigned int site_count(unsigned int why)
{
	tei_loop_do(loop, read_count, &why);
	return why;
}

/* ---- the peer ---- */

int site_dial(void)
{
	return test_dial(port);
}

void site_say(int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

size_t site_hear(int fd)
{
	size_t n = 0;

	for (;;) {
		ssize_t got = recv(fd, site_answer + n, SITE_ROOM - n, 0);

		assert_true(got >= 0);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	site_answer[n] = '\0';
	close(fd);
	return n;
}

int site_ask(const char *text, const char **body)
{
	int fd = site_dial(), status;

	site_say(fd, text, strlen(text));
	site_hear(fd);
	assert_int_equal(sscanf(site_answer, "HTTP/1.1 %d ", &status), 1);
	*body = strstr(site_answer, "\r\n\r\n");
	assert_non_null(*body);
	*body += 4;
	return status;
}

int site_status(const char *text)
{
	const char *body;

	return site_ask(text, &body);
}
