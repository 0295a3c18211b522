/* SPDX-License-Identifier: Apache-2.0 */
/* emptied.h - an owner whose segment a job empties, as HTTP tells of it */
#ifndef TESTS_INTEGRATION_STORE_EMPTIED_H
#define TESTS_INTEGRATION_STORE_EMPTIED_H

#include <stdbool.h>

#include <jansson.h>

#include <te/te.h>

#include "tests/integration/master/caller.h"
#include "tests/store/pool.h"

#define EMPTIED_OWNERS 3

struct emptied {
	struct master master;
	struct pool pool; /* of the master's address */
	struct te_store *client;
	const char *bytes;                           /* of each segment */
	struct test_process *owners[EMPTIED_OWNERS]; /* the first is emptied */
	char name[TE_NAME_LEN_MAX + 1];              /* of its segment */
	char job[64];
};

/* With the first owner alone; @lease: an argument of the master. */
void emptied_start(struct emptied *e, const char *lease, const char *bytes);
void emptied_stop(struct emptied *e);
/* The name of the one segment that @key is in. */
void emptied_find(struct emptied *e, const char *key,
		  char name[TE_NAME_LEN_MAX + 1]);
/* So many owners join it. */
void emptied_join(struct emptied *e, int n);

/* The answer, which must come with @status, to be freed by json_decref(). */
json_t *emptied_ask(const struct emptied *e, const char *request,
		    const char *body, int status);
/* Begin the job. @target: the only segment that may get anything, or NULL. */
void emptied_begin(struct emptied *e, const char *target);
/* What is told of the job, to be freed by json_decref(); one figure of it. */
json_t *emptied_job(const struct emptied *e);
json_int_t emptied_figure(const struct emptied *e, const char *member);
/* Of the job, for test_wait_until(). */
bool emptied_has_ended(void *e);
/* All but one are moved, which @moved are, and that one cannot be. */
bool emptied_is_stuck(const struct emptied *e, unsigned int moved);

#endif
