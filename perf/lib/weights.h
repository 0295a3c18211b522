/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights.h - "get:80,put:20": names with their shares
 */
#ifndef PERF_LIB_WEIGHTS_H
#define PERF_LIB_WEIGHTS_H

#include <stdint.h>

#define TEI_WEIGHTS_MAX 16
#define TEI_WEIGHT_NAME 16
#define TEI_WEIGHT_MOST 1000000

struct tei_weight {
	char name[TEI_WEIGHT_NAME];
	uint32_t weight; /* 0 .. TEI_WEIGHT_MOST */
};

struct tei_weights {
	uint32_t n, total; /* total: of the weights, at least 1 */
	struct tei_weight each[TEI_WEIGHTS_MAX];
};

/*
 * "a:3,b:1"; a name without a number weighs 1. -EINVAL: malformed, a name
 * twice, too many, or nothing weighs anything.
 */
int tei_weights_parse(const char *text, struct tei_weights *out);
/* Picks one of them by @chance, any number. */
uint32_t tei_weights_pick(const struct tei_weights *w, uint64_t chance);

#endif
