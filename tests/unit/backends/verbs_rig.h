/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rig.h - two rails of verbs on the fake provider, joined
 *
 * `near` belongs to the initiator's rail, `far` to the target's, each registered
 * whole; the far one may be read and written.
 */
#ifndef VERBS_RIG_H
#define VERBS_RIG_H

#include <te/te.h>

#include "backends/verbs/verbs.h"
#include "tests/lib/fake_verbs/fake_verbs.h"
#include "tests/unit/backends/fake_core.h"

#define RIG_LEN ((size_t)1 << 20)
#define RIG_RW  (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

extern const struct tei_backend_ops tei_backend_verbs;

struct verbs_rig {
	bool fake; /* the provider */
	struct fake_pair pair;
	uint8_t near[RIG_LEN], far[RIG_LEN];
	uint8_t key[TEI_BLOB_MAX]; /* of far */
	size_t key_len;
};

extern struct verbs_rig rig;

/* A new fabric of one device, and the rig on it. 0 or why not. */
int verbs_rig_open(const char *const settings[], uint32_t far_access);
/* The same on a port of a provider that does not have to be the fake. */
int verbs_rig_open_on(const struct verbs_provider *api, const char *port,
		      const char *const settings[], uint32_t far_access);
/* The same on two ports of a fabric that is there already, which may differ. */
int verbs_rig_open_two(const char *near_port, const char *const near_settings[],
		       const char *far_port, const char *const far_settings[]);
/* Ends it; asserts that nothing is left. */
void verbs_rig_close(void);
/* open() and close() for cmocka. */
int verbs_rig_set_up(void **state);
int verbs_rig_tear_down(void **state);
/* close() and open() with settings of its own; fails the test. */
void verbs_rig_reopen(const char *const settings[]);

void verbs_rig_fill(uint8_t *at, size_t n, uint64_t seed);

/* One slice of one piece, at the same place in both memories. */
struct fake_slice *verbs_rig_slice(uint32_t op, size_t at, size_t length);
/* With pieces of its own; at @at in the far memory. */
struct fake_slice *verbs_rig_pieces(uint32_t op, size_t at,
				    const struct iovec *iov, uint32_t n);
/* Post it and wait until it has ended; not from inside post(). */
void verbs_rig_carry(struct fake_slice *s);
/* Make and post s[n], of one piece of @length bytes each, side by side. */
void verbs_rig_post(struct fake_slice **s, size_t n, uint32_t op,
		    size_t length);
/* Wait until s[n] have ended well, and destroy them. */
void verbs_rig_await(struct fake_slice **s, size_t n);
/* What the core does: flush and close both halves of a broken pair, join anew. */
void verbs_rig_rejoin(void);
/* Progress until *@n is @want; fails the test when that takes too long. */
void verbs_rig_wait(const unsigned int *n, unsigned int want);

#endif
