/* SPDX-License-Identifier: Apache-2.0 */
/*
 * popularity.c - which of n things is asked for next
 *
 * Zipf by rejection-inversion (Hoermann, Derflinger: Rejection-inversion to
 * generate variates from monotone discrete distributions, 1996): no table, and
 * seldom more than one try, however many things there are. The area under
 * x^-theta between k - 1/2 and k + 1/2 is a little more than what k is due;
 * the excess is where a draw is refused.
 */
#include "perf/lib/popularity.h"

#include <math.h>

#include "base/chance.h"

#define NEAR_ONE 1e-9 /* |1 - theta| below it: the logarithm */

/* 0 <= result < 1, of 53 random bits. */
static double draw_fraction(uint64_t *state)
{
	return (double)(tei_chance(state) >> 11) * 0x1p-53;
}

static double density_at(const struct tei_popularity *p, double x)
{
	return exp(-p->theta * log(x));
}

/* Returns the integral of the density up to @x; below is its inverse. */
static double area_up_to(const struct tei_popularity *p, double x)
{
	double e = 1 - p->theta;

	return fabs(e) < NEAR_ONE ? log(x) : expm1(e * log(x)) / e;
}

static double find_from_area(const struct tei_popularity *p, double a)
{
	double e = 1 - p->theta;

	return exp(fabs(e) < NEAR_ONE ? a : log1p(e * a) / e);
}

void tei_popularity_init(struct tei_popularity *p, uint64_t n, double theta)
{
	*p = (struct tei_popularity){.n = n, .theta = theta};
	if (theta <= 0)
		return;
	p->low = area_up_to(p, 1.5) - 1;
	p->high = area_up_to(p, (double)n + 0.5);
	p->near = 2 - find_from_area(p, area_up_to(p, 2.5) - density_at(p, 2));
}

uint64_t tei_popularity_draw(const struct tei_popularity *p, uint64_t *state)
{
	double a, x, k;

	if (p->theta <= 0)
		return (uint64_t)(draw_fraction(state) * (double)p->n);
	for (;;) {
		a = p->high + draw_fraction(state) * (p->low - p->high);
		x = find_from_area(p, a);
		k = floor(x + 0.5);
		if (k < 1)
			k = 1;
		else if (k > (double)p->n)
			k = (double)p->n;
		if (k - x <= p->near ||
		    a >= area_up_to(p, k + 0.5) - density_at(p, k))
			return (uint64_t)k - 1;
	}
}
