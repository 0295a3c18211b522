/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - what a TransferEngine of Python is made of
 *
 * The GIL guards every field: it is held wherever one is looked at, and given
 * away round each call of the library that may block. Methods hold a reference
 * to the object, so that nothing is destroyed under them. There is no mutex, so
 * that a fork child finds none locked.
 */
#ifndef PYTHON_ENGINE_ENGINE_H
#define PYTHON_ENGINE_ENGINE_H

#include "python/src/args.h"
#include "python/src/warn.h"

#include <te/te.h>

#define PY_IDLE_BATCHES 16

/* Mooncake's numbers. */
enum py_code {
	PY_FAILED = -1,
	PY_NOT_REGISTERED = -3,
	PY_OVERLAPPED = -7,
	PY_ENDPOINT = -201,
	PY_NO_MEMORY = -302,
};

struct py_region {
	uint64_t addr, length;
	/* PROT_* of all of it, when it was added; of a GPU's: both. */
	int protection;
	bool is_gpu;     /* no page of it says whether it is there */
	te_region_id id; /* 0: just being registered, or taken back */
};

struct py_transfer;

struct py_engine {
	PyObject_HEAD struct te_engine *te; /* NULL: not initialized yet */
	bool is_starting;
	uint32_t timeout_ms; /* of a transfer, without what its bytes add */
	PyObject *segments;  /* dict: name -> id */
	struct py_region *regions; /* sorted by address */
	size_t n_regions;
	struct te_batch *idle[PY_IDLE_BATCHES]; /* PY_BATCH_SIZE each */
	size_t n_idle;
	PyObject
		*transfers; /* dict: number -> capsule of an asynchronous one */
	uint64_t last_transfer;
	struct py_transfer **on_streams; /* as they were called */
	size_t n_on_streams, room_on_streams;
	PyObject *managed; /* dict: address -> length */
	struct py_arena *arena;
};

/* PY_FAILED as an int of Python, after a line that says what is wrong. */
PyObject *py_refuse(const char *method, const char *argument, const char *why);
/* Result of a method that could not read @argument; @rc is not PY_ARG_OK. */
PyObject *py_bad_argument(const char *method, const char *argument, int rc);
/* Tells whether there is an engine; else logs a line. */
bool py_is_ready(const struct py_engine *self, const char *method);

/* ---- start.c; without the GIL ---- */

struct py_start {
	const char *host, *metadata, *protocol, *devices;
};

/* 0, or -errno after a line of the log. Blocks: as te_engine_create(). */
int py_start_engine(const struct py_start *how, struct te_engine **out);
/* True unless the environment variable is "", 0, false, off or no. */
bool py_is_on(const char *variable);

/* ---- peer.c ---- */

PyObject *py_peer_refusal(PyObject *module, PyObject *args);

/* ---- segments.c ---- */

/*
 * The segment of the peer @name. @stale: one that was found to be of the peer's
 * former life, and is not given again; 0: none. Gives the GIL away while it is
 * opened, for @timeout_ms at most; PY_NO_WAIT: the peer need not be there. 0,
 * or
 * -errno; PY_FAILED never.
 */
#define PY_NO_WAIT UINT32_MAX
int py_segment_find(struct py_engine *self, const char *name,
		    te_segment_id stale, uint32_t timeout_ms,
		    te_segment_id *out);
/* The same, and one that is known to be of a former life is opened anew. */
int py_segment_fresh(struct py_engine *self, const char *name,
		     uint32_t timeout_ms, te_segment_id *out);

/* ---- memory.c ---- */

/* 0, or a py_code after a line of the log. Both give the GIL away. */
int py_region_add(struct py_engine *self, const char *method, uint64_t addr,
		  uint64_t length, const char *location);
int py_region_drop(struct py_engine *self, const char *method, uint64_t addr);
/*
 * Tells whether memory can be read, or written, and ends in registered memory
 * where it begins in such. May give the GIL away. *sure is
 * for callers that ask about many: where a region begins that was found to be
 * mapped still, 0 at first.
 */
bool py_is_there(const struct py_engine *self, uint64_t addr, uint64_t length,
		 bool writable, uint64_t *sure);
/* Tells whether some of the range is in a registered region of a GPU's. */
bool py_is_gpu(const struct py_engine *self, uint64_t addr, uint64_t length);

/* ---- async.c ---- */

/* Ends transfers whose results nobody has asked for. */
void py_transfers_end(struct py_engine *self);

/* ---- cuda.c ---- */

/* Ends transfers on streams; those not reached yet are cancelled. */
void py_on_streams_end(struct py_engine *self);

/* ---- arena.c ---- */

void py_arena_free(struct py_engine *self); /* after the engine */

/* ---- notify.c ---- */

/* A TransferNotify as the bytes that go, a new reference; NULL: raised. */
PyObject *py_notify_pack(PyObject *notify, const char *name);
extern PyType_Spec py_notify_spec;

/* ---- methods, by the file they are in ---- */

extern PyMethodDef py_memory_methods[], py_arena_methods[], py_sync_methods[],
	py_async_methods[], py_notify_methods[], py_segment_methods[],
	py_engine_methods[], py_cuda_methods[];

extern PyType_Spec py_engine_spec;

#endif
