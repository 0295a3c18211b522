/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.h - patterns of keys
 *
 * Regular expressions of PCRE2, looked for anywhere in a key, byte by byte.
 * Patterns come from outside: what a match may take is bounded. A pattern that
 * takes more for one key, or much for very many, matches nothing from then on.
 */
#ifndef STORE_SERVER_MATCH_H
#define STORE_SERVER_MATCH_H

#include <stdbool.h>
#include <stddef.h>

#define TES_SERVER_MATCH_WHY_LEN 160

struct tes_server_match;

/* -EINVAL: no such pattern, @why says what is wrong. -ENOMEM. */
int tes_server_match_create(const char *pattern, struct tes_server_match **out,
			    char why[TES_SERVER_MATCH_WHY_LEN]);
void tes_server_match_destroy(struct tes_server_match *m); /* NULL is fine */
/* A tes_core_match_fn. */
bool tes_server_match(const void *key, size_t len, void *match,
		      unsigned int *cost);
/* Makes nothing match from now on, as if it had taken too long. */
void tes_server_match_stop(struct tes_server_match *m);
/* True: matching took too long for some key and was given up. */
bool tes_server_match_failed(const struct tes_server_match *m);

#endif
