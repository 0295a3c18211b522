/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - the entries of one call, on their way to one peer
 *
 * A transfer has one deadline, from when it was made. Whatever is only a
 * question of time is tried again until then: a peer that is not there yet, or
 * that has restarted, in which case all of it is sent once more, to the new
 * life.
 */
#ifndef PYTHON_ENGINE_TRANSFER_H
#define PYTHON_ENGINE_TRANSFER_H

#include "python/src/engine/engine.h"

#include <sys/uio.h>

#define PY_BATCH_SIZE 64    /* entries of a batch that is kept for the next */
#define PY_BATCH_MOST 65536 /* entries of one batch; more take several */

struct py_transfer {
	const char *method; /* for lines of the log; static */
	char *target;
	te_segment_id segment; /* 0: not found yet */
	uint64_t deadline_ms;
	size_t n;
	struct te_request *requests;
	struct iovec *pieces;
	struct te_batch **batches;
	size_t n_batches, n_seen; /* requests that are known to have ended */
	int error;                /* of the first one that failed for good */
	bool is_stale;            /* the peer was found to have restarted */
	bool is_patient;          /* the caller waits until the peer is found */
	bool is_busy; /* a thread looks at it, maybe without the GIL */
};

/*
 * Arguments of a call; each is checked, and a log line says what is wrong, or
 * with @raises a RuntimeError.
 */
struct py_entries {
	const char *method, *target;
	bool raises;
	uint32_t op; /* enum te_op */
	struct py_numbers buffers, peers, lengths;
};

/* Says in the way that the method has what is wrong. Needs the GIL. */
void py_entries_refuse(const struct py_entries *entries, const char *format,
		       ...) __attribute__((format(printf, 2, 3)));

/* Creates a transfer. Needs the GIL, and gives it away. 0 or PY_FAILED. */
int py_transfer_create(struct py_engine *self, const struct py_entries *entries,
		       struct py_transfer **out);
/*
 * Destroys a transfer of which nothing goes on. Keeps a small batch for the
 * next one. Needs the GIL; blocks without it.
 */
void py_transfer_destroy(struct py_engine *self, struct py_transfer *transfer);

/*
 * Send all of it. With the GIL, which is given away. 0, or PY_FAILED after a
 * line of the log. Blocks if @patient: until the peer is known, within the
 * deadline; else the peer is sought while others go on.
 */
int py_transfer_start(struct py_engine *self, struct py_transfer *transfer,
		      bool patient);
/*
 * Wait for the end. 0, -ETIMEDOUT, or another -errno, after a line of the log.
 */
int py_transfer_finish(struct py_engine *self, struct py_transfer *transfer);
/*
 * Look whether it has ended, and send it again where that helps. -EAGAIN: it is
 * under way; else as py_transfer_finish().
 */
int py_transfer_look(struct py_engine *self, struct py_transfer *transfer);

/*
 * Have the transfer begin when a CUDA stream gets to where it is now. With the
 * GIL, which is given away; blocks until the peer is known, within its
 * deadline. 0, or -1: raised, and it is to be destroyed.
 */
int py_transfer_on_stream(struct py_engine *self, struct py_transfer *transfer,
			  uint64_t stream);
/* 0 or the first error of a transfer's requests; -EAGAIN: it is under way. */
int py_transfer_result(struct py_transfer *transfer);

/*
 * Send @bytes as a notification, once the transfer has ended well. 0, -errno.
 */
int py_notify_send(struct py_engine *self, const struct py_transfer *transfer,
		   PyObject *bytes);

#endif
