/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - an engine of another process: NAME [BYTES [graceful]]
 *
 * Registers so much memory, each byte of it 0x5a, and prints the engine's name
 * and the address. Ends when its input does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compat/transfer_engine_c.h"

int main(int argc, char *argv[])
{
	size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 4096;
	const char *name = argc > 1 ? argv[1] : "127.0.0.1";
	transfer_engine_t engine =
		createTransferEngine("P2PHANDSHAKE", name, "", 0, 1);
	char *memory = malloc(bytes);
	char there[300], c;

	if (memory)
		memset(memory, 0x5a, bytes);
	if (registerLocalMemory(engine, memory, bytes, "*", 1)) {
		free(memory);
		return 1;
	}
	if (argc > 3)
		enableGracefulShutdown(engine);
	(void)getLocalIpAndPort(engine, there, sizeof(there));
	printf("serving %s %" PRIuPTR "\n", there, (uintptr_t)memory);
	(void)fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	for (;;)
		(void)pause();
}
