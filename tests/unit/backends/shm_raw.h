/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_raw.h - bare sockets and memory that speak to a rail of shm
 *
 * As strangers and as an initiator that knows a token, and as a target that an
 * initiator of the rail has connected to. One rail, one arena; what a test
 * leaves open or mapped fails its tear-down.
 */
#ifndef SHM_RAW_H
#define SHM_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "backends/shm/shm.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_shm;

#define SRAW_LEN ((size_t)1 << 20) /* of the arena */

extern struct fake_rail sraw_rail;
extern uint8_t *sraw_memory; /* what tei_memory_backing() knows */

int sraw_set_up(void **state);
int sraw_tear_down(void **state);

/* Memory that cannot change its size; an fd. */
int sraw_sealed(size_t size);
/* How many mappings of memfds this process has. */
unsigned int sraw_maps(void);

/* The rail's progress(), once. */
void sraw_turn(void);
bool sraw_turn_until(const unsigned int *n, unsigned int want);

/* An endpoint of the rail and the address that it gave. */
struct tei_endpoint *sraw_open(struct fake_link *link, bool target,
			       struct shm_address *a);
void sraw_close(struct tei_endpoint *ep);

/* The arena, or a part, as a region of the rail; its key. */
uint64_t sraw_region(uint8_t *at, size_t len, uint32_t access,
		     uint8_t key[SHM_KEY_LEN]);
void sraw_unregion(uint64_t id);

/* ---- as an initiator ---- */

/* To the rail's socket, as a stranger. */
int sraw_dial(void);
/* The rail has closed its end. */
bool sraw_closed(int fd);
void sraw_hello(int fd, const struct shm_address *a);
/* The next message; fails the test when none comes. */
void sraw_receive(int fd, struct shm_message *m, int *got);
/* Known to @ep: its control pages, mapped. */
int sraw_attach(const struct shm_address *a, struct shm_pages **pages);
void sraw_serves_honest_peers(void);

/* ---- as a target ---- */

struct sraw_host { /* a socket in a directory of its own */
	char dir[SHM_PATH_MAX - 16];
	struct shm_address address;
	int listener;
};

void sraw_host_open(struct sraw_host *h);
void sraw_host_close(struct sraw_host *h);
/* The rail's initiator @ep connects and says hello; the socket. */
int sraw_meet(const struct sraw_host *h, struct tei_endpoint *ep);
void sraw_welcome(int fd, const struct shm_address *a, int pages_fd);

#endif
