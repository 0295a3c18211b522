/* SPDX-License-Identifier: Apache-2.0 */
/* place.c - which worker drives which rail */
#include "te/worker/place.h"

/* The rails' nodes that come before @node, each once. */
static uint32_t nodes_before(const struct tei_rail_place *rails, uint32_t n,
			     int node)
{
	uint32_t i, k, sum = 0;

	for (i = 0; i < n; i++) {
		if (rails[i].kept || rails[i].node < 0 || rails[i].node >= node)
			continue;
		for (k = 0; k < i; k++)
			if (!rails[k].kept && rails[k].node == rails[i].node)
				break;
		sum += k == i;
	}
	return sum;
}

static bool comes_before(const struct tei_rail_place *rails, uint32_t a,
			 uint32_t b)
{
	if (rails[a].node != rails[b].node)
		return rails[a].node < rails[b].node;
	return a < b;
}

/* Deals out rail @i: its place among those of its tier says to whom. */
static uint32_t deal_rail(const struct tei_rail_place *rails, uint32_t n,
			  uint32_t i, uint32_t wanted)
{
	uint32_t k, before = 0, all = 1;

	for (k = 0; k < n; k++) {
		if (k == i || rails[k].kept || rails[k].tier != rails[i].tier)
			continue;
		all++;
		before += comes_before(rails, k, i);
	}
	return before * wanted / all;
}

/* Numbers the workers anew, without those that have no rail. */
static uint32_t close_ranks(struct tei_rail_place *rails, uint32_t n,
			    uint32_t used)
{
	uint32_t i, worker = 0;

	while (worker < used) {
		bool any = false;

		for (i = 0; i < n; i++)
			any |= rails[i].worker == worker;
		if (any) {
			worker++;
			continue;
		}
		for (i = 0; i < n; i++)
			rails[i].worker -= rails[i].worker > worker;
		used--;
	}
	return used;
}

/* Tells whether some that are not kept reach memory of GPUs, or need not. */
static bool any_without_stages(const struct tei_rail_place *rails, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && (rails[i].kept || rails[i].stages))
		i++;
	return i < n;
}

uint32_t tei_place_rails(struct tei_rail_place *rails, uint32_t n,
			 uint32_t wanted, uint32_t most)
{
	bool by_node = !wanted && any_without_stages(rails, n);
	uint32_t i;

	if (by_node)
		wanted = nodes_before(rails, n, INT32_MAX);
	if (wanted > most) {
		wanted = most;
		by_node = false;
	}
	if (!wanted)
		wanted = 1;
	for (i = 0; i < n; i++) {
		if (rails[i].kept || (by_node && rails[i].node < 0))
			rails[i].worker = 0;
		else if (by_node)
			rails[i].worker = nodes_before(rails, n, rails[i].node);
		else
			rails[i].worker = deal_rail(rails, n, i, wanted);
	}
	wanted = close_ranks(rails, n, wanted);
	return wanted ? wanted : 1;
}
