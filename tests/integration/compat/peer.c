/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - an engine of another process: NAME [BYTES [graceful]]
 *
 * Registers so much memory, each byte of it 0x5a, and prints the engine's name
 * and the address, which is the same in each of its lives if it can be. Then
 * "told NAME BYTE" for each notification that comes, with the memory's last byte
 * at that time. Ends when it is killed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "compat/transfer_engine_c.h"
#include "tests/lib/wait.h"

/* Where nothing else is, sanitizers' shadows included. */
#define ADDRESS ((void *)0x7ea000000000)

struct ear {
	transfer_engine_t engine;
	const char *last_byte;
};

static bool tell(void *arg)
{
	struct ear *ear = arg;
	int n = 0;
	notify_msg_t *all = getNotifsFromEngine(ear->engine, &n);

	for (int i = 0; i < n; i++)
		printf("told %s %d\n", all[i].name, *ear->last_byte);
	(void)freeNotifsMsgBuf(all, n);
	(void)fflush(stdout);
	return false;
}

int main(int argc, char *argv[])
{
	size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 0) : 4096;
	const char *name = argc > 1 ? argv[1] : "127.0.0.1";
	transfer_engine_t engine =
		createTransferEngine("P2PHANDSHAKE", name, "", 0, 1);
	char *memory = mmap(ADDRESS, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ear ear = {engine, memory + bytes - 1};
	char there[300];

	if (memory == MAP_FAILED)
		return 1;
	memset(memory, 0x5a, bytes);
	if (registerLocalMemory(engine, memory, bytes, "*", 1))
		return 1;
	if (argc > 3)
		enableGracefulShutdown(engine);
	(void)getLocalIpAndPort(engine, there, sizeof(there));
	printf("serving %s %" PRIuPTR "\n", there, (uintptr_t)memory);
	(void)fflush(stdout);
	for (;;)
		(void)test_wait_until(tell, &ear, UINT32_MAX);
}
