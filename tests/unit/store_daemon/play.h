/* SPDX-License-Identifier: Apache-2.0 */
/*
 * play.h - an agent whose store is the test, and dummies made by hand
 *
 * The store of this agent is a few functions: a put adds up the bytes that it
 * is given, a get writes 'g' everywhere, and both wait while the gate is shut.
 */
#ifndef TESTS_UNIT_STORE_DAEMON_PLAY_H
#define TESTS_UNIT_STORE_DAEMON_PLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "store/daemon/agent.h"
#include "store/proto/agent.h"
#include "store/proto/agent.pb-c.h"
#include "tests/lib/tmpdir.h"

#define PLAY_MS   30000
#define PLAY_SIZE 65536u /* of a dummy's memory */

struct play {
	struct tes_agent *agent;
	struct tes_agent_config config;
	char dir[TEST_PATH_MAX], path[TEST_PATH_MAX + 16];
};

/* What the store has seen. */
struct play_store {
	_Atomic unsigned int n_calls, n_registered, n_waiting, n_walks;
	_Atomic uint64_t sum;  /* of the bytes that were put */
	_Atomic uint64_t size; /* of all values; 0: 1 */
	_Atomic bool shut;     /* the gate */
};
extern struct play_store play_store;

/* @memory_max: PLAY_SIZE for each of 16 dummies, when 0. */
void play_start(struct play *play, unsigned int n_threads, uint64_t memory_max);
/* Another agent in the same place. */
void play_restart(struct play *play);
void play_stop(struct play *play);
/* Fails the test unless *value becomes @wanted. */
void play_await(_Atomic unsigned int *value, unsigned int wanted);

/* A connected socket. */
int play_connect(const struct play *play);
/* Any bytes and descriptors; fails the test when they cannot be sent. */
void play_send(int socket, const void *bytes, size_t len, const int *fds,
	       size_t n_fds);
/* The status that the greeting is answered with, -1: the end. */
int play_greet(int socket, struct tes_greeting *g, const int *fds,
	       size_t n_fds);
/* True: the other side closes, within PLAY_MS; what comes before is dropped. */
bool play_ends(int socket);

struct play_dummy {
	int socket, fd;
	uint8_t *memory;
	struct tes_greeting session;
	uint64_t last_id;
};

void play_attach(const struct play *play, struct play_dummy *dummy);
/* One more connection of @from's session; its socket. */
int play_join(const struct play *play, const struct play_dummy *from);
void play_leave(struct play_dummy *dummy);

void play_ask(struct play_dummy *dummy, uint16_t type, const void *msg);
/* The answer to the call asked last; *arena is the caller's to end. */
Agent__Results *play_answer(struct play_dummy *dummy, struct tei_arena *arena);
/* Ask for one key "k" in one piece. */
void play_ask_piece(struct play_dummy *dummy, uint16_t type, uint64_t region,
		    uint64_t offset, uint64_t length, uint32_t wait_ms);
/* And its result, or the code of all. */
int64_t play_result(struct play_dummy *dummy);

#endif
