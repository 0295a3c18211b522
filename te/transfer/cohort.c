/* SPDX-License-Identifier: Apache-2.0 */
/* cohort.c - requests that begin and time out together, and how they part */
#include <stdbool.h>
#include <stdint.h>

#include "te/transfer/request.h"

void tei_cohort_each(struct tei_cohort *cohort,
		     void (*fn)(struct tei_request *r, int err), int err)
{
	uint32_t i;

	for (i = 0; i < cohort->n && cohort->n_live; i++) {
		struct tei_request *r = &cohort->first[i];

		if (r->begun && !tei_request_is_final(r))
			fn(r, err);
	}
}

struct tei_request *tei_cohort_resting(const struct tei_cohort *cohort)
{
	for (uint32_t i = 0; i < cohort->n; i++)
		if (!tei_request_is_final(&cohort->first[i]) &&
		    tei_request_rests(&cohort->first[i]))
			return &cohort->first[i];
	return NULL;
}

bool tei_cohort_is_at_rest(const struct tei_cohort *cohort)
{
	for (uint32_t i = 0; i < cohort->n; i++)
		if (!tei_request_is_final(&cohort->first[i]) &&
		    !tei_request_rests(&cohort->first[i]))
			return false;
	return true;
}

uint32_t tei_cohort_run(const struct tei_cohort *cohort)
{
	const struct tei_request *before = NULL;
	uint32_t i;

	for (i = 0; i < cohort->n; i++) {
		const struct tei_request *r = &cohort->first[i];

		if (tei_request_is_final(r))
			continue;
		if (before && tei_request_rests(r) != tei_request_rests(before))
			break;
		before = r;
	}
	return i;
}

struct tei_cohort *tei_cohort_cut(struct tei_cohort *cohort, uint32_t n)
{
	struct tei_request *first = &cohort->first[n];
	struct tei_cohort *rest = &first->batch->cohorts[first->index];

	*rest = (struct tei_cohort){.first = first,
				    .n = cohort->n - n,
				    .begun_at = cohort->begun_at,
				    .doubted_at = cohort->doubted_at,
				    .at = atomic_load(&cohort->at),
				    .n_moves = cohort->n_moves};
	tei_list_init(&rest->of_peer);
	for (uint32_t i = 0; i < rest->n; i++) {
		rest->n_live += !tei_request_is_final(&first[i]);
		atomic_store_explicit(&first[i].cohort, rest,
				      memory_order_release);
	}
	cohort->n = n;
	cohort->n_live -= rest->n_live;
	return rest;
}
