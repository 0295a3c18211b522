/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_site.h - a small site that an HTTP server serves, and its peers
 *
 * /echo takes every method and answers with parameters and body as they came,
 * a line of name=value each, then the body. /query answers with the length and
 * the bytes of the parameter `key`. /pieces answers in pieces; with `broken` in
 * its parameters the first of them fails.
 *
 * The server lives on a loop's thread, peers talk to it over sockets.
 */
#ifndef TESTS_UNIT_BASE_HTTP_SITE_H
#define TESTS_UNIT_BASE_HTTP_SITE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/http.h"

#define SITE_BODY_MAX 100000     /* bytes that it takes */
#define SITE_ROOM     (4u << 20) /* bytes of an answer */
/* After "first\n"; the n-th has only the n-th letter, from b on. */
#define SITE_PIECES 100
#define SITE_PIECE  20000 /* bytes */

/* For cmocka. */
int site_set_up(void **state);
int site_tear_down(void **state);
/* In between. */
void site_stop(void);
void site_start(void);
/* Once more, with these of struct tei_http_config. */
void site_start_as(bool insecure, const char *allow_host);
void site_start_for(const char *allow_uids);
/* How often the server has refused for @why, an enum tei_http_refusal. */
unsigned int site_count(unsigned int why);
/* How many answers in pieces are over; until there are @n. */
unsigned int site_n_done(void);
void site_await_done(unsigned int n);

/* The last answer, with a 0 behind it. */
extern char *site_answer;

/* A connection of a peer's. */
int site_dial(void);
void site_say(int fd, const void *bytes, size_t len);
/* All until the server closes; how much that is. */
size_t site_hear(int fd);
/* The answer to @text, its status and where its body begins. */
int site_ask(const char *text, const char **body);
int site_status(const char *text);

#endif
