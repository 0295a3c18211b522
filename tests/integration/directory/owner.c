/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.c - an engine in a process of its own, to be killed
 *
 * usage: directory_owner NAME [SETTING VALUE]...
 *
 * Prints "owner INCARNATION", as hexadecimal digits, and stays until it is
 * ended by a signal; by SIGTERM in good order.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <te/te.h>

#include "te/directory/entry.h"

int main(int argc, char **argv)
{
	uint8_t incarnation[TE_INCARNATION_LEN];
	char life[TEI_ENTRY_LIFE_LEN + 1];
	struct te_config *config;
	struct te_engine *engine;
	sigset_t set;
	int sig, rc = te_config_create(&config);

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 2; !rc && i + 1 < argc; i += 2)
		rc = te_config_set(config, argv[i], argv[i + 1], NULL, 0);
	if (!rc)
		rc = te_engine_create(config, argv[1], &engine);
	if (rc) {
		printf("owner failed %d\n", rc);
		return 1;
	}
	te_config_destroy(config);
	te_engine_incarnation(engine, incarnation);
	tei_entry_life(incarnation, life);
	printf("owner %s\n", life);
	fflush(stdout);
	sigwait(&set, &sig);
	te_engine_destroy(engine);
	return 0;
}
