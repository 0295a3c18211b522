/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.h - bare sockets that speak to a rail of tcp
 *
 * As strangers, as an initiator that knows a token, and as a target that an
 * initiator of the rail has connected to. One rail and one region, global.
 */
#ifndef RAW_H
#define RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/tcp/tcp.h"
#include "tests/unit/backends/fake_core.h"

extern const struct tei_backend_ops tei_backend_tcp;

#define RAW_OPEN_AT 65536 /* where the region begins in raw_memory[] */

extern uint8_t raw_memory[3 * RAW_OPEN_AT]; /* as much before and behind */
extern struct fake_rail raw_rail;
extern uint64_t raw_region;
/* For raw_set_up(): "tcp.lanes=1" ...; NULL: none. */
extern const char *const *raw_settings;

int raw_set_up(void **state);
int raw_tear_down(void **state); /* -1: a pin is left */
/* Memory before and behind the region is as it was. */
void raw_check_fences(void);
/* The rail's progress(), once. */
void raw_turn(void);

/* A connection, not blocking. */
int raw_dial(uint16_t port);
/* What the other side no longer takes is not missed. */
void raw_put(int fd, const void *bytes, size_t len);
/* The rail has closed its end; what it said before is thrown away. */
bool raw_closed_in_time(int fd);
void raw_get_all(int fd, uint8_t *bytes, size_t len);
void raw_fill_random(uint8_t *bytes, size_t len);

/* An endpoint of the rail and the address that it gave. */
struct tei_endpoint *raw_open_half(struct fake_link *link, bool target,
				   struct tcp_address *a);
void raw_close_half(struct tei_endpoint *ep);
void raw_put_hello(int fd, const struct tcp_address *a, uint8_t lane,
		   uint8_t lanes);
/* An initiator that the rail believes in. */
int raw_dial_known(const struct tcp_address *a);
uint16_t raw_port_of_rail(void);
void raw_serves_honest_peers(void);

int raw_listen_here(uint16_t *port);
/* The rail's initiator connects to this socket; what it says is dropped. */
int raw_meet(struct tei_endpoint *ep, int listener, uint16_t port);
void raw_welcome(int fd, uint8_t status);

#endif
