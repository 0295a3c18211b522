/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.h - two hosts with two networks between them, for tests
 *
 * Real interfaces, real sockets, limits of 400 and 200 Mbit/s. Every write
 * goes to its own place, and at the end the owner's checksum must be that of
 * all the bytes.
 */
#ifndef TESTS_INTEGRATION_RAILS_HOSTS_H
#define TESTS_INTEGRATION_RAILS_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include <te/te.h>

#include "tests/lib/process.h"
#include "tests/lib/test.h"

#define MIB ((size_t)1 << 20)
#if defined(__SANITIZE_THREAD__)
#define REGION_LEN (16 * MIB) /* what it carries is several times slower */
#else
#define REGION_LEN (48 * MIB)
#endif
#define PIECE     (256 * 1024)
#define N_PIECES  (REGION_LEN / PIECE)
#define WAIT_MS   60000
#define FAST_MBIT 400u
#define SLOW_MBIT 200u

struct hosts {
	struct test_process *owner;
	struct te_engine *engine;
	te_segment_id segment;
	char name[128]; /* of the owner */
	uint64_t remote;
	uint8_t *local;
	struct te_batch *batch;
	uint32_t n_done; /* of what is in the batch */
	uint32_t op;     /* of what is submitted: TE_WRITE, TE_READ */
};

/* "ofi": by libfabric's provider tcp; "tcp" unless a test sets it. */
extern const char *hosts_backend;

/* For cmocka: *state is a struct hosts, all connected. */
int hosts_set_up(void **state);
/* With an owner whose rails hosts_toggle() stops, and sets going again. */
int hosts_set_up_driven(void **state);
void hosts_toggle(struct hosts *h);
int hosts_tear_down(void **state);

/* Interface rail<network> of ours, or the owner's peer<network>. */
void hosts_set_link(struct hosts *h, int network, bool ours, bool up);

/* Move the first @n pieces of the region, each by a request of its own. */
void hosts_submit(struct hosts *h, uint32_t n);
/* Until @want of what was submitted has ended well. */
void hosts_await(struct hosts *h, uint32_t want);
/* What has ended is forgotten, and the batch free for more. */
void hosts_again(struct hosts *h);
/* The owner has all the bytes of the first @n pieces, and 0 after. */
void hosts_expect_bytes(struct hosts *h, uint32_t n);

uint64_t hosts_stat(struct hosts *h, const char *name, const char *label);
/* Bytes of payload that our @rail ("rail0") has sent. */
uint64_t hosts_sent(struct hosts *h, const char *rail);

/* Submit all pieces, of which some are sent over both networks then. */
void hosts_begin(struct hosts *h);
/* Await all pieces, and their bytes. */
void hosts_finish(struct hosts *h);
/* Submit all pieces again and again until our @rail has sent some. */
void hosts_await_use(struct hosts *h, const char *rail);

/* Take both interfaces of a network away; make them again. */
void hosts_remove(int network);
void hosts_join(struct hosts *h, int network);

/* Frames of ours go to an address that nobody has: no event tells of it. */
void hosts_silence(int network);
/*
 * Of what arrives by @network, at either host, @percent is dropped, 0: nothing
 * any more. False: the system cannot.
 */
bool hosts_lose(struct hosts *h, int network, unsigned int percent);
/*
 * The network forgets the data connections that there are, as a firewall does:
 * what they carry is dropped, and new ones work. False: the system cannot.
 */
bool hosts_forget(struct hosts *h, int network);

/* The group, in a network namespace of our own; 77: not here, and says why. */
#define hosts_run(tests) \
	(hosts_enter() ? cmocka_run_group_tests(tests, NULL, NULL) : 77)
bool hosts_enter(void);
#define HOSTS_TEST(name) \
	cmocka_unit_test_setup_teardown(name, hosts_set_up, hosts_tear_down)

#endif
