/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.c - managed buffers: registered memory that the engine hands out
 *
 * Powers of two from 8 KiB to 256 MiB are cut from chunks of the largest size,
 * a buddy at a time, and put together again when both halves are free. Chunks
 * are registered as a whole, take memory only where they are used, and stay
 * until the engine goes. Anything larger has a region of its own.
 */
#include "python/src/engine/engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST 13 /* log2 of the bytes */
#define LARGEST  28
#define ORDERS   (LARGEST - SMALLEST + 1)
#define CHUNK    (1ull << LARGEST)

struct free_list {
	uint64_t *blocks;
	size_t n, room;
};

struct py_arena {
	struct free_list free[ORDERS];
	struct free_list chunks;
};

static bool push(struct free_list *list, uint64_t block)
{
	uint64_t *more;

	if (list->n == list->room) {
		more = realloc(list->blocks,
			       (2 * list->room + 8) * sizeof(*more));
		if (!more)
			return false;
		list->blocks = more;
		list->room = 2 * list->room + 8;
	}
	list->blocks[list->n++] = block;
	return true;
}

static bool take_out(struct free_list *list, uint64_t block)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->blocks[i] != block)
			continue;
		list->blocks[i] = list->blocks[--list->n];
		return true;
	}
	return false;
}

static int order_of(uint64_t length)
{
	int order = 0;

	while (length > 1ull << (SMALLEST + order))
		order++;
	return order;
}

static uint64_t size_of(int order)
{
	return 1ull << (SMALLEST + order);
}

/* Returns where the chunk of a block begins. */
static uint64_t chunk_of(const struct py_arena *arena, uint64_t block)
{
	for (size_t i = 0; i < arena->chunks.n; i++)
		if (block - arena->chunks.blocks[i] < CHUNK)
			return arena->chunks.blocks[i];
	return 0;
}

/* A block goes back, with its buddies. Without memory for that it stays out. */
static void release(struct py_arena *arena, uint64_t block, int order)
{
	uint64_t chunk = chunk_of(arena, block), buddy;

	for (; order < ORDERS - 1; order++) {
		buddy = chunk + ((block - chunk) ^ size_of(order));
		if (!take_out(&arena->free[order], buddy))
			break;
		if (buddy < block)
			block = buddy;
	}
	(void)push(&arena->free[order], block);
}

/* 0: no larger one is free. */
static uint64_t cut(struct py_arena *arena, int order)
{
	int from = order;
	uint64_t block;

	while (from < ORDERS && !arena->free[from].n)
		from++;
	if (from == ORDERS)
		return 0;
	assert(arena->free[from].blocks);
	block = arena->free[from].blocks[--arena->free[from].n];
	while (from-- > order)
		if (!push(&arena->free[from], block + size_of(from)))
			return 0;
	return block;
}

/* Maps and registers @length bytes. 0: there are none, which is logged. */
static uint64_t make_arena(struct py_engine *self, const char *method,
			   uint64_t length)
{
	void *memory = NULL;
	int rc;

	Py_BEGIN_ALLOW_THREADS;
	rc = te_memory_alloc(self->te, length, &memory);
	Py_END_ALLOW_THREADS;
	if (rc) {
		py_warn(method, "length %llu: %s", (unsigned long long)length,
			te_strerror(rc));
		return 0;
	}
	if (!py_region_add(self, method, (uintptr_t)memory, length, "*"))
		return (uintptr_t)memory;
	te_memory_free(self->te, memory);
	return 0;
}

static uint64_t block_of(struct py_engine *self, const char *method,
			 uint64_t length)
{
	uint64_t block, chunk;
	int order;

	if (length > CHUNK)
		return make_arena(self, method, length);
	if (!self->arena)
		self->arena = calloc(1, sizeof(*self->arena));
	if (!self->arena)
		return 0;
	order = order_of(length);
	block = cut(self->arena, order);
	if (block)
		return block;
	chunk = make_arena(self, method, CHUNK);
	/* Without memory to note it by it stays with the engine, unused. */
	if (!chunk || !push(&self->arena->chunks, chunk) ||
	    !push(&self->arena->free[ORDERS - 1], chunk))
		return 0;
	return cut(self->arena, order);
}

static void give_back(struct py_engine *self, const char *method,
		      uint64_t block, uint64_t length)
{
	if (length <= CHUNK) {
		release(self->arena, block, order_of(length));
		return;
	}
	if (!py_region_drop(self, method, block))
		te_memory_free(self->te, (void *)(uintptr_t)block);
}

/* Notes who has what, so that a second free is refused. */
static int note(struct py_engine *self, uint64_t block, uint64_t length)
{
	PyObject *key = PyLong_FromUnsignedLongLong(block);
	PyObject *value = PyLong_FromUnsignedLongLong(length);
	int rc = key && value ? PyDict_SetItem(self->managed, key, value) : -1;

	Py_XDECREF(key);
	Py_XDECREF(value);
	return rc;
}

static PyObject *allocate_managed_buffer(PyObject *object, PyObject *args,
					 PyObject *kwargs)
{
	static char *names[] = {"length", NULL};
	const char *method = "allocate_managed_buffer";
	struct py_engine *self = (struct py_engine *)object;
	PyObject *value;
	uint64_t length, block;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "O:allocate_managed_buffer", names, &value))
		return NULL;
	rc = py_arg_uint64(value, names[0], &length);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (rc || !length || length > TE_LENGTH_MAX) {
		py_warn(method, "length is 0, negative or too large");
		return PyLong_FromLong(0);
	}
	if (!py_is_ready(self, method))
		return PyLong_FromLong(0);
	block = block_of(self, method, length);
	if (block && note(self, block, length)) {
		give_back(self, method, block, length);
		return NULL;
	}
	return PyLong_FromUnsignedLongLong(block);
}

/* Takes back a buffer; false: none of this length was handed out there. */
static bool forget_buffer(struct py_engine *self, uint64_t addr,
			  uint64_t length)
{
	PyObject *key = PyLong_FromUnsignedLongLong(addr);
	PyObject *value =
		key ? PyDict_GetItemWithError(self->managed, key) : NULL;
	bool found = value && PyLong_AsUnsignedLongLong(value) == length &&
		     !PyDict_DelItem(self->managed, key);

	Py_XDECREF(key);
	return found;
}

static PyObject *free_managed_buffer(PyObject *object, PyObject *args,
				     PyObject *kwargs)
{
	static char *names[] = {"addr", "length", NULL};
	const char *method = "free_managed_buffer";
	struct py_engine *self = (struct py_engine *)object;
	PyObject *where, *size;
	uint64_t addr, length;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:free_managed_buffer",
					 names, &where, &size))
		return NULL;
	rc = py_arg_uint64(where, names[0], &addr);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	rc = py_arg_uint64(size, names[1], &length);
	if (rc)
		return py_bad_argument(method, names[1], rc);
	if (!py_is_ready(self, method))
		return PyLong_FromLong(PY_FAILED);
	if (!forget_buffer(self, addr, length)) {
		if (PyErr_Occurred())
			return NULL;
		return py_refuse(method, names[0],
				 "no managed buffer of this length is there");
	}
	give_back(self, method, addr, length);
	return PyLong_FromLong(0);
}

static void copy(uint64_t to, const void *from, uint64_t length)
{
	if (!length) /* of no memory, perhaps */
		return;
	Py_BEGIN_ALLOW_THREADS;
	memmove((void *)(uintptr_t)to, from, length);
	Py_END_ALLOW_THREADS;
}

static PyObject *write_bytes_to_buffer(PyObject *object, PyObject *args,
				       PyObject *kwargs)
{
	static char *names[] = {"dest_address", "src_ptr", "length", NULL};
	const char *method = "write_bytes_to_buffer";
	struct py_engine *self = (struct py_engine *)object;
	PyObject *dest, *src, *size, *result;
	uint64_t addr, length, sure = 0;
	Py_buffer view;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs,
					 "OOO:write_bytes_to_buffer", names,
					 &dest, &src, &size))
		return NULL;
	rc = py_arg_uint64(dest, names[0], &addr);
	if (rc)
		return py_bad_argument(method, names[0], rc);
	rc = py_arg_uint64(size, names[2], &length);
	if (rc)
		return py_bad_argument(method, names[2], rc);
	if (py_arg_view(src, names[1], false, &view))
		return NULL;
	if (length > (uint64_t)view.len) {
		result = py_refuse(method, names[2], "more than src_ptr has");
	} else if (length && !py_is_there(self, addr, length, true, &sure)) {
		result = py_refuse(method, names[0],
				   "no memory to write to is there, or it runs "
				   "past the end of what is registered");
	} else if (py_is_gpu(self, addr, length)) {
		result = py_refuse(method, names[0],
				   "memory of a GPU, which no processor "
				   "writes");
	} else {
		copy(addr, view.buf, length);
		result = PyLong_FromLong(0);
	}
	PyBuffer_Release(&view);
	return result;
}

static PyObject *read_bytes_from_buffer(PyObject *object, PyObject *args,
					PyObject *kwargs)
{
	static char *names[] = {"source_address", "length", NULL};
	struct py_engine *self = (struct py_engine *)object;
	PyObject *source, *size, *bytes;
	uint64_t addr, length, sure = 0;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs,
					 "OO:read_bytes_from_buffer", names,
					 &source, &size))
		return NULL;
	rc = py_arg_uint64(source, names[0], &addr);
	if (!rc)
		rc = py_arg_uint64(size, names[1], &length);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (rc || length > PY_SSIZE_T_MAX ||
	    (length && !py_is_there(self, addr, length, false, &sure))) {
		PyErr_SetString(PyExc_ValueError,
				"source_address: no memory of this length to "
				"read is there, or it runs past the end of "
				"what is registered");
		return NULL;
	}
	if (py_is_gpu(self, addr, length)) {
		PyErr_SetString(PyExc_ValueError,
				"source_address: memory of a GPU, which no "
				"processor reads");
		return NULL;
	}
	bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
	if (bytes)
		copy((uintptr_t)PyBytes_AsString(bytes),
		     (const void *)(uintptr_t)addr, length);
	return bytes;
}

void py_arena_free(struct py_engine *self)
{
	if (!self->arena)
		return;
	for (int i = 0; i < ORDERS; i++)
		free(self->arena->free[i].blocks);
	free(self->arena->chunks.blocks);
	free(self->arena);
	self->arena = NULL;
}

PyMethodDef py_arena_methods[] = {
	{"allocate_managed_buffer",
	 (PyCFunction)(void (*)(void))allocate_managed_buffer,
	 METH_VARARGS | METH_KEYWORDS,
	 "allocate_managed_buffer(length)\n--\n\n"
	 "Address of registered memory; 0: there is none."},
	{"free_managed_buffer",
	 (PyCFunction)(void (*)(void))free_managed_buffer,
	 METH_VARARGS | METH_KEYWORDS,
	 "free_managed_buffer(addr, length)\n--\n\n"
	 "With the length that was asked for. 0; -1: no such buffer."},
	{"write_bytes_to_buffer",
	 (PyCFunction)(void (*)(void))write_bytes_to_buffer,
	 METH_VARARGS | METH_KEYWORDS,
	 "write_bytes_to_buffer(dest_address, src_ptr, length)\n--\n\n"
	 "Copy bytes, or any contiguous buffer, to an address. 0 or -1."},
	{"read_bytes_from_buffer",
	 (PyCFunction)(void (*)(void))read_bytes_from_buffer,
	 METH_VARARGS | METH_KEYWORDS,
	 "read_bytes_from_buffer(source_address, length)\n--\n\n"
	 "A copy of memory; ValueError: none is there."},
	{NULL, NULL, 0, NULL},
};
