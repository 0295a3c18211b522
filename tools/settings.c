/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - print the engine's settings and each backend's as Markdown
 *
 * Part of docs/settings.md; tools/check-settings puts the page together.
 */
#include <stdio.h>

#include "base/conf.h"
#include "te/backend.h"
#include "te/config.h"

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
	return 0;
}
