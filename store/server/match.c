/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match.c - patterns of keys
 *
 * Interpreted, not compiled to machine code: a server needs no memory that is
 * both written and run, and the limits count the same on every machine.
 *
 * PCRE2's own limits begin anew at every place of the key where a match could
 * begin. Ours is of the whole key: the pattern is compiled with a callout
 * before each of its items, and those count.
 */
#define PCRE2_CODE_UNIT_WIDTH 8

#include "store/server/match.h"

#include <errno.h>
#include <stdio.h>

#include <pcre2.h>

#include "base/clock.h"
#include "base/mem.h"

#define STEPS_MAX 10000 /* of one key: some half a ms */
/* Of a key on average, once all keys together had so many: some seconds. */
#define AVERAGE_MAX 1000
#define ALL_FREE    20000000
#define STRIDE      16 /* bytes that a step goes over for the price of one */
#define DEPTH_MAX   1000
#define HEAP_KIB    1024
#define COST_NS     40 /* of looking at an object, which costs 1 */

struct tes_server_match {
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *limits;
	bool repeats; /* has back references: an item may compare a whole key */
	uint64_t steps; /* of this key */
	uint64_t all_steps, n_keys;
	PCRE2_SIZE seen; /* where the last step was */
	bool failed;
};

/* Runs before each item of the pattern; the bytes since the last count. */
static int count_callout(pcre2_callout_block *at, void *arg)
{
	struct tes_server_match *m = arg;
	PCRE2_SIZE way = at->current_position > m->seen
				 ? at->current_position - m->seen
				 : m->seen - at->current_position;

	if (m->repeats)
		way = at->subject_length;
	m->seen = at->current_position;
	m->steps += 1 + way / STRIDE;
	return m->steps > STEPS_MAX ? PCRE2_ERROR_MATCHLIMIT : 0;
}

static int compile(struct tes_server_match *m, const char *pattern,
		   char why[TES_SERVER_MATCH_WHY_LEN])
{
	/* Bytes, not characters; and as ECMAScript has it where it differs. */
	const uint32_t options = PCRE2_NEVER_UTF | PCRE2_NEVER_UCP |
				 PCRE2_NEVER_BACKSLASH_C | PCRE2_ALT_BSUX |
				 PCRE2_ALLOW_EMPTY_CLASS |
				 PCRE2_MATCH_UNSET_BACKREF |
				 PCRE2_DOLLAR_ENDONLY | PCRE2_AUTO_CALLOUT;
	PCRE2_SIZE at = 0;
	PCRE2_UCHAR text[100];
	int error = 0;

	m->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
				options, &error, &at, NULL);
	if (m->code)
		return 0;
	text[0] = '\0';
	pcre2_get_error_message(error, text, sizeof(text));
	snprintf(why, TES_SERVER_MATCH_WHY_LEN, "pattern, at %zu: %s", at,
		 (const char *)text);
	return -EINVAL;
}

int tes_server_match_create(const char *pattern, struct tes_server_match **out,
			    char why[TES_SERVER_MATCH_WHY_LEN])
{
	struct tes_server_match *m = tei_calloc(1, sizeof(*m));
	uint32_t references = 0;
	int rc = -ENOMEM;

	snprintf(why, TES_SERVER_MATCH_WHY_LEN, "out of memory");
	if (!m)
		return rc;
	rc = compile(m, pattern, why);
	if (rc)
		goto destroy;
	(void)pcre2_pattern_info(m->code, PCRE2_INFO_BACKREFMAX, &references);
	m->repeats = references != 0;
	rc = -ENOMEM;
	m->data = pcre2_match_data_create(1, NULL);
	m->limits = pcre2_match_context_create(NULL);
	if (!m->data || !m->limits)
		goto destroy;
	(void)pcre2_set_callout(m->limits, count_callout, m);
	pcre2_set_match_limit(m->limits, STEPS_MAX);
	pcre2_set_depth_limit(m->limits, DEPTH_MAX);
	pcre2_set_heap_limit(m->limits, HEAP_KIB);
	*out = m;
	return 0;

destroy:
	tes_server_match_destroy(m);
	return rc;
}

void tes_server_match_destroy(struct tes_server_match *m)
{
	if (!m)
		return;
	pcre2_match_context_free(m->limits);
	pcre2_match_data_free(m->data);
	pcre2_code_free(m->code);
	tei_free(m);
}

static bool is_too_dear(const struct tes_server_match *m)
{
	return m->all_steps > ALL_FREE &&
	       m->all_steps / m->n_keys > AVERAGE_MAX;
}

bool tes_server_match(const void *key, size_t len, void *match,
		      unsigned int *cost)
{
	struct tes_server_match *m = match;
	uint64_t start;
	int rc;

	if (m->failed)
		return false;
	m->steps = m->seen = 0;
	start = tei_now_ns();
	rc = pcre2_match(m->code, key, len, 0, 0, m->data, m->limits);
	*cost += (unsigned int)((tei_now_ns() - start) / COST_NS);
	m->all_steps += m->steps;
	m->n_keys++;
	m->failed = (rc < 0 && rc != PCRE2_ERROR_NOMATCH) || is_too_dear(m);
	return rc >= 0;
}

void tes_server_match_stop(struct tes_server_match *m)
{
	m->failed = true;
}

bool tes_server_match_failed(const struct tes_server_match *m)
{
	return m->failed;
}
