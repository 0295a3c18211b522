/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - patterns of keys
 *
 * Regular expressions of PCRE2, looked for anywhere in a key, byte by byte.
 * Patterns come from outside: what a match may take is bounded, and a pattern
 * that takes more for one key matches nothing from then on.
 */
#ifndef STORE_SERVER_MATCH_H
#define STORE_SERVER_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#define TEI_SERVER_MATCH_WHY_LEN 160

struct tei_server_match;

/* -EINVAL: no such pattern, @why says what is wrong. -ENOMEM. */
int tei_server_match_create(const char *pattern, struct tei_server_match **out,
			    char why[TEI_SERVER_MATCH_WHY_LEN]);
void tei_server_match_destroy(struct tei_server_match *m); /* NULL is fine */
/* A tei_core_match_fn. */
bool tei_server_match(const void *key, size_t len, void *match,
		      unsigned int *cost);
/* Nothing matches from now on, as if it had taken too long. */
void tei_server_match_stop(struct tei_server_match *m);
/* It took too long for some key. */
bool tei_server_match_failed(const struct tei_server_match *m);

#endif
