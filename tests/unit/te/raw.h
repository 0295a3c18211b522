/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.h - a plain socket that speaks to an engine's control port
 *
 * Everything fails the running test when it takes too long.
 */
#ifndef TESTS_UNIT_TE_RAW_H
#define TESTS_UNIT_TE_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "te/core/control.pb-c.h"

struct te_engine;

int raw_connect(const struct te_engine *engine);
void raw_send(int fd, const void *bytes, size_t len);
/* A frame with a header that claims @claimed bytes. */
size_t raw_frame(uint8_t *out, size_t room, uint32_t claimed, uint16_t type,
		 uint64_t id, const void *body, size_t len);
/* A whole frame with that message. */
void raw_send_message(int fd, uint16_t type, uint64_t id,
		      const ProtobufCMessage *m);
/*
 * The next frame's body in @body[*len]; *len is set to its length. Returns its
 * type, -1: the engine has closed the connection.
 */
int raw_receive(int fd, uint8_t *body, size_t *len);
/* Reads and drops until the engine closes; closes, too. */
void raw_await_close(int fd);

/* A hello that is right, of the engine life @incarnation[16]. */
void raw_fill_hello(Te__Hello *m, uint8_t incarnation[16], uint8_t nonce[32]);
/* Connected, and @hello said and answered with the access epoch. */
int raw_greet_with(const struct te_engine *engine, const Te__Hello *hello,
		   uint64_t *epoch);
/* The same with the plainest hello. */
int raw_greet(const struct te_engine *engine, uint8_t incarnation[16],
	      uint64_t *epoch);

#endif
