/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - print the settings of libraries as Markdown: the engine's, each
 * backend's, and those of a store that is set up by keys and values
 *
 * Part of docs/settings.md; tools/check-settings puts the page together.
 */
#include <stdio.h>

#include "base/conf.h"
#include "store/api/pairs.h"
#include "te/backend.h"
#include "te/core/config.h"

static void print(const char *title, const struct tei_setting *rows, size_t n)
{
	const struct tei_conf conf = {.rows = rows, .n = n};

	printf("### %s\n\n", title);
	tei_conf_markdown(&conf, stdout);
	printf("\n");
}

int main(void)
{
	const struct tei_backend_ops *const *ops;

	print("all backends", tei_config_rows, tei_config_n_rows);
	for (ops = tei_backends; *ops; ops++)
		if ((*ops)->n_settings)
			print((*ops)->name, (*ops)->settings,
			      (*ops)->n_settings);
	printf("## Store\n\n"
	       "For `te_store_setup_pairs()`, and Mooncake's `setup` by it.\n\n");
	print("keys", tes_pairs_rows, tes_pairs_n_rows);
	return 0;
}
