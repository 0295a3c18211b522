/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ofi_rig.h - two rails of ofi on the fake libfabric, joined
 *
 * `near` belongs to the initiator's rail on domain 0, `far` to the target's on
 * domain 1, each registered whole; the far one may be read and written. Tests
 * run once for each shape of the fake that the backend drives.
 */
#ifndef OFI_RIG_H
#define OFI_RIG_H

#include <te/te.h>

#include "backends/ofi/ofi.h"
#include "tests/lib/fake_ofi/fake_ofi.h"
#include "tests/lib/test.h"
#include "tests/unit/backends/fake_core.h"

#define RIG_LEN ((size_t)1 << 20)
#define RIG_RW  (TE_ACCESS_REMOTE_READ | TE_ACCESS_REMOTE_WRITE)

extern const struct tei_backend_ops tei_backend_ofi;

struct ofi_rig {
	enum fake_ofi_shape shape; /* of the tests that run now */
	bool connected;            /* FI_EP_MSG */
	struct fake_pair pair;
	uint8_t near[RIG_LEN], far[RIG_LEN];
	uint8_t key[FAKE_KEY_MAX]; /* of far */
	size_t key_len;
};

extern struct ofi_rig rig;

/*
 * Run tests[n] for each shape that is driven, as groups called @name and the
 * shape; returns how many failed.
 */
int ofi_rig_run(const char *name, const struct CMUnitTest *tests, size_t n);

/* Settings of a rail: the provider, then up to 7 of @more; NULL: none. */
const char *const *ofi_rig_settings(const char *const more[]);
/* Starts the fake, of two domains. */
void ofi_rig_start(void);
/* Ends it; the backend has no provider then. Nothing is open. */
void ofi_rig_stop(void);
/* Opens rails, pair and regions on a fake that has begun. 0 or why not. */
int ofi_rig_open(const char *const more[]);
/* Closes what open() has opened; the fake goes on. */
void ofi_rig_close(void);
/* start() and open(), close() and stop(), for cmocka. */
int ofi_rig_set_up(void **state);
int ofi_rig_tear_down(void **state); /* asserts that nothing is left */
/* Both, with settings of its own; fails the test. */
void ofi_rig_reopen(const char *const more[]);
/* The settings of a probe, by the backend's own defaults. */
struct ofi_config ofi_rig_config(void);

/* One slice of one piece, at the same place in both memories. */
struct fake_slice *ofi_rig_slice(uint32_t op, size_t at, size_t length);
/* With pieces of its own; at @at in the far memory. */
struct fake_slice *ofi_rig_pieces(uint32_t op, size_t at,
				  const struct iovec *iov, uint32_t n);
/* Post it and wait until it has ended; not from inside post(). */
void ofi_rig_carry(struct fake_slice *s);
/* Make and post s[n], of one piece of @length bytes each, side by side. */
void ofi_rig_post(struct fake_slice **s, size_t n, uint32_t op, size_t length);
/*
 * Wait until s[n] have ended or the initiator is down, which then is flushed,
 * and both halves are joined anew. Returns whether it was.
 */
bool ofi_rig_settle(struct fake_slice *const *s, size_t n);
/*
 * Flush the initiator; where that waits for what is posted, the device gives it
 * up, and hangs no more.
 */
void ofi_rig_flush(int err);
/* What the core does: flush and close both halves of a pair, join anew. */
void ofi_rig_rejoin(void);
/* Progress until *@n is @want; fails the test when that takes too long. */
void ofi_rig_wait(const unsigned int *n, unsigned int want);
void ofi_rig_wait_down(void); /* of the initiator */
/* Asserts that s[n] ended once each; destroys them. Returns how many well. */
unsigned int ofi_rig_count_good(struct fake_slice **s, size_t n);

#endif
