/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack.h - many connections to one port, held by processes of their own
 *
 * Each child has at most 900 of them, so that no process needs more than 1,024
 * descriptors. Children die with the test.
 */
#ifndef TESTS_LIB_ATTACK_H
#define TESTS_LIB_ATTACK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ATTACK_CHILDREN 16

struct attack {
	pid_t child[ATTACK_CHILDREN];
	unsigned int n;
};

/* Says on @fd, the @i-th connection, what the attack is. May not allocate. */
typedef void attack_fn(int fd, unsigned int i);

/* TE_TEST_ATTACKS is "full": @full, else @brief. */
unsigned int attack_size(unsigned int brief, unsigned int full);
/*
 * Opens @n connections to @port; returns when all have said what they say, and
 * the other side has answered or closed each.
 */
void attack_start(struct attack *a, uint16_t port, unsigned int n,
		  attack_fn *say);
void attack_end(struct attack *a);

/* Sends all of @bytes[len], or as much as the other side takes. */
bool attack_send(int fd, const void *bytes, size_t len);

/* Most memory that the process has had, in bytes. */
uint64_t attack_memory(pid_t pid);

#endif
