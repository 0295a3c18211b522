/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.c - methods that lend memory to the pool, and take it back
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <te/memory.h>

#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/types.h"

/* ---- registered memory ---- */

/* Mooncake's dummies say -1 where its other clients say -600. */
static int registration_code(const struct ps_client *client, int code)
{
	return client->is_dummy && code == TE_STORE_INVALID_PARAMS
		       ? TE_STORE_INTERNAL_ERROR
		       : code;
}

/*
 * Tells whether a dummy names a part of a block, which is not registered: only
 * whole blocks are, as one alloc_from_mem_pool() has returned them.
 */
static bool is_part_of_block(const struct ps_client *client, uint64_t addr,
			     uint64_t size)
{
	uint64_t left =
		te_store_registered_bytes(client->te, (void *)(uintptr_t)addr);

	return client->is_dummy && left &&
	       (left != size ||
		te_store_registered_bytes(
			client->te, (void *)(uintptr_t)(addr - 1)) == size + 1);
}

static PyObject *register_buffer(PyObject *self, PyObject *args,
				 PyObject *keywords)
{
	static char *names[] = {"buffer_ptr", "size", NULL};
	const char *why = "overlap what is registered";
	struct ps_client *client;
	PyObject *ptr, *length;
	uint64_t addr, size;
	int rc, code = TE_STORE_INVALID_PARAMS;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:register_buffer",
					 names, &ptr, &length))
		return NULL;
	rc = py_arg_number("register_buffer", ptr, names[0], &addr);
	if (!rc)
		rc = py_arg_number("register_buffer", length, names[1], &size);
	if (rc == PY_ARG_RAISED)
		return NULL;
	client = ps_client_pin((struct ps_store *)self, "register_buffer");
	if (!client)
		return PyLong_FromLong(code);
	/* Nothing at its begin: a GPU's may be there, as its driver knows. */
	if (!rc && !te_memory_is_mapped(addr, size) &&
	    te_memory_is_mapped(addr, 1)) {
		why = "no memory of ours is there";
	} else if (!rc && is_part_of_block(client, addr, size)) {
		why = "are not a whole block of the shared memory";
	} else if (!rc) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_register(client->te, (void *)(uintptr_t)addr,
					 size);
		Py_END_ALLOW_THREADS;
		if (code && !te_memory_is_mapped(addr, 1))
			why = "no memory of ours is there";
	}
	if (!rc && code == TE_STORE_INVALID_PARAMS)
		py_warn("register_buffer", "buffer_ptr, size: %s", why);
	code = registration_code(client, code);
	ps_client_unpin(client);
	return PyLong_FromLong(code);
}

static PyObject *unregister_buffer(PyObject *self, PyObject *args,
				   PyObject *keywords)
{
	static char *names[] = {"buffer_ptr", NULL};
	struct ps_client *client;
	PyObject *ptr;
	uint64_t addr;
	int rc, code = TE_STORE_INVALID_PARAMS;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:unregister_buffer",
					 names, &ptr))
		return NULL;
	rc = py_arg_number("unregister_buffer", ptr, names[0], &addr);
	if (rc == PY_ARG_RAISED)
		return NULL;
	client = ps_client_pin((struct ps_store *)self, "unregister_buffer");
	if (!client)
		return PyLong_FromLong(code);
	if (!rc) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_unregister(client->te, (void *)(uintptr_t)addr);
		Py_END_ALLOW_THREADS;
		if (code == TE_STORE_INVALID_PARAMS)
			py_warn("unregister_buffer",
				"buffer_ptr: nothing is registered there");
	}
	code = registration_code(client, code);
	ps_client_unpin(client);
	return PyLong_FromLong(code);
}

static PyObject *registered_bytes(PyObject *self, PyObject *addr)
{
	struct ps_client *client = NULL;
	uint64_t number, left = 0;
	int rc =
		py_arg_number("_registered_bytes", addr, "buffer_ptr", &number);

	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc)
		client = ps_client_pin((struct ps_store *)self,
				       "_registered_bytes");
	if (client) {
		left = te_store_registered_bytes(client->te,
						 (void *)(uintptr_t)number);
		ps_client_unpin(client);
	}
	return PyLong_FromUnsignedLongLong(left);
}

static PyObject *alloc_from_mem_pool(PyObject *self, PyObject *args,
				     PyObject *keywords)
{
	static char *names[] = {"size", NULL};
	struct ps_client *client = NULL;
	PyObject *wanted;
	uint64_t size;
	void *memory = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(
		    args, keywords, "O:alloc_from_mem_pool", names, &wanted))
		return NULL;
	rc = py_arg_number("alloc_from_mem_pool", wanted, names[0], &size);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc)
		client = ps_client_pin((struct ps_store *)self,
				       "alloc_from_mem_pool");
	if (client) {
		memory = te_store_pool_alloc(client->te, size);
		ps_client_unpin(client);
		if (!memory)
			py_warn("alloc_from_mem_pool",
				"size: no room, or not set up by setup_dummy()");
	}
	return PyLong_FromVoidPtr(memory);
}

/* ---- segments ---- */

/* Mooncake's text of an id: its two halves, "1-2". */
static PyObject *id_text(const uint8_t id[TE_STORE_SEGMENT_ID_LEN])
{
	unsigned long long halves[2];
	char text[48];

	memcpy(halves, id, sizeof(halves));
	(void)PyOS_snprintf(text, sizeof(text), "%llu-%llu", halves[0],
			    halves[1]);
	return PyUnicode_FromString(text);
}

static bool parse_half(const char **text, char end, unsigned long long *out)
{
	char *stop;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*out = strtoull(*text, &stop, 10);
	if (errno || *stop != end)
		return false;
	*text = stop + (end != '\0');
	return true;
}

/* PY_ARG_RANGE: it is none. */
static int parse_id(PyObject *object, uint8_t id[TE_STORE_SEGMENT_ID_LEN])
{
	unsigned long long halves[2];
	const char *text;
	int rc = py_arg_text(object, "segment_ids", &text);

	if (rc)
		return rc;
	if (!parse_half(&text, '-', &halves[0]) ||
	    !parse_half(&text, '\0', &halves[1]))
		return PY_ARG_RANGE;
	memcpy(id, halves, sizeof(halves));
	return PY_ARG_OK;
}

/* {"ret": code, "segment_ids": [id]}, and @size if it is not 0. */
static PyObject *mounted(int code, const uint8_t id[TE_STORE_SEGMENT_ID_LEN],
			 uint64_t size)
{
	PyObject *ids =
		code ? PyList_New(0) : Py_BuildValue("[N]", id_text(id));

	if (!size)
		return Py_BuildValue("{sisN}", "ret", code, "segment_ids", ids);
	return Py_BuildValue("{sisNsK}", "ret", code, "segment_ids", ids,
			     "allocated_size",
			     code ? 0ull : (unsigned long long)size);
}

/* Checks texts that are for other machines than ours, and have no effect. */
static int check_texts(PyObject *protocol, PyObject *location)
{
	const char *unused;

	if (protocol && py_arg_text(protocol, "protocol", &unused) < 0)
		return PY_ARG_RAISED;
	if (location && py_arg_text(location, "location", &unused) < 0)
		return PY_ARG_RAISED;
	return PY_ARG_OK;
}

static PyObject *mount_segment(PyObject *self, PyObject *args,
			       PyObject *keywords)
{
	static char *names[] = {"path",     "size",     "offset",
				"protocol", "location", NULL};
	PyObject *file, *length, *from = NULL, *protocol = NULL, *place = NULL;
	struct ps_client *client = NULL;
	uint8_t id[TE_STORE_SEGMENT_ID_LEN] = {0};
	uint64_t size, offset = 0;
	const char *path;
	int rc, code = -1;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|OOO:mount_segment",
					 names, &file, &length, &from,
					 &protocol, &place))
		return NULL;
	rc = check_texts(protocol, place);
	if (!rc) {
		rc = py_arg_text(file, names[0], &path);
		if (rc == PY_ARG_RANGE)
			py_warn("mount_segment", "path is no text");
	}
	if (!rc)
		rc = py_arg_number("mount_segment", length, names[1], &size);
	if (!rc && from)
		rc = py_arg_number("mount_segment", from, names[2], &offset);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc)
		client =
			ps_client_pin((struct ps_store *)self, "mount_segment");
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_mount_shared(client->te, path, offset, size,
					     id);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
	}
	return mounted(code, id, 0);
}

static PyObject *allocate_and_mount_segment(PyObject *self, PyObject *args,
					    PyObject *keywords)
{
	static char *names[] = {"size", "protocol", "location", NULL};
	PyObject *length, *protocol = NULL, *place = NULL;
	struct ps_client *client = NULL;
	uint8_t id[TE_STORE_SEGMENT_ID_LEN] = {0};
	uint64_t size = 0;
	int rc, code = -1;

	if (!PyArg_ParseTupleAndKeywords(args, keywords,
					 "O|OO:allocate_and_mount_segment",
					 names, &length, &protocol, &place))
		return NULL;
	rc = check_texts(protocol, place);
	if (!rc)
		rc = py_arg_number("allocate_and_mount_segment", length,
				   names[0], &size);
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (!rc)
		client = ps_client_pin((struct ps_store *)self,
				       "allocate_and_mount_segment");
	if (client) {
		Py_BEGIN_ALLOW_THREADS;
		code = te_store_mount(client->te, size, id);
		Py_END_ALLOW_THREADS;
		ps_client_unpin(client);
	}
	return mounted(code, id, size ? size : 1);
}

static int unmount_one(struct te_store *te, PyObject *text, uint64_t grace_ms)
{
	uint8_t id[TE_STORE_SEGMENT_ID_LEN];
	int code, rc = parse_id(text, id);

	if (rc == PY_ARG_RAISED)
		return 1;
	if (rc) {
		py_warn("unmount_segment", "segment_ids: one is no id of a "
					   "segment, such as '1-2'");
		return TE_STORE_INVALID_PARAMS;
	}
	Py_BEGIN_ALLOW_THREADS;
	code = te_store_unmount(te, id, grace_ms);
	Py_END_ALLOW_THREADS;
	return code;
}

static PyObject *unmount(PyObject *self, PyObject *args, PyObject *keywords,
			 const char *format, const char *function)
{
	static char *names[] = {"segment_ids", "grace_period_seconds", NULL};
	PyObject *list, *grace = NULL, *ids = NULL;
	struct ps_client *client = NULL;
	uint64_t seconds = 0;
	int rc, one, code = 0;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &list,
					 &grace))
		return NULL;
	rc = grace ? py_arg_uint64(grace, names[1], &seconds) : PY_ARG_OK;
	if (rc == PY_ARG_RAISED || py_arg_tuple(list, names[0], &ids))
		return NULL;
	if (rc || seconds > TE_STORE_GRACE_MAX_MS / 1000)
		py_warn(function, "grace_period_seconds is out of range");
	else
		client = ps_client_pin((struct ps_store *)self, function);
	if (!client)
		code = TE_STORE_INVALID_PARAMS;
	for (Py_ssize_t i = 0; client && code <= 0 && i < PyTuple_Size(ids);
	     i++) {
		one = unmount_one(client->te, PyTuple_GetItem(ids, i),
				  seconds * 1000);
		if (one > 0 || !code)
			code = one;
	}
	if (client)
		ps_client_unpin(client);
	Py_DECREF(ids);
	return code > 0 ? NULL : PyLong_FromLong(code);
}

static PyObject *unmount_segment(PyObject *self, PyObject *args,
				 PyObject *keywords)
{
	return unmount(self, args, keywords, "O|O:unmount_segment",
		       "unmount_segment");
}

static PyObject *unmount_and_free_segment(PyObject *self, PyObject *args,
					  PyObject *keywords)
{
	return unmount(self, args, keywords, "O|O:unmount_and_free_segment",
		       "unmount_and_free_segment");
}

#define UNMOUNT_DOC                                                       \
	"segment_ids, grace_period_seconds=0)\n--\n\n"                    \
	"Take segments back, at once or after a time in which they can\n" \
	"still be read. 0, or the first negative code."

/* ---- disks, of which no client lends one ---- */

static PyObject *unmount_disk(PyObject *self, PyObject *args,
			      PyObject *keywords)
{
	static char *names[] = {"grace_period_seconds", NULL};
	struct ps_client *client;
	PyObject *grace = NULL;
	uint64_t seconds = 0;

	if (!PyArg_ParseTupleAndKeywords(args, keywords,
					 "|O:unmount_local_disk_segment", names,
					 &grace) ||
	    (grace &&
	     py_arg_uint64(grace, names[0], &seconds) == PY_ARG_RAISED))
		return NULL;
	client = ps_client_pin((struct ps_store *)self,
			       "unmount_local_disk_segment");
	if (!client)
		return PyLong_FromLong(-1);
	ps_client_unpin(client);
	py_warn("unmount_local_disk_segment", "no disk is mounted");
	return PyLong_FromLong(TE_STORE_SEGMENT_NOT_FOUND);
}

static PyObject *get_disk_reads(PyObject *self, PyObject *unused)
{
	(void)self;
	(void)unused;
	return PyLong_FromLong(0);
}

const PyMethodDef ps_segment_methods[] = {
	PS_METHOD("register_buffer", register_buffer,
		  "buffer_ptr, size)\n--\n\n"
		  "Have memory at hand for puts and gets; they need it not.\n\n"
		  "Values that begin in it must end in it.\n\n"
		  "0, -600 (a dummy: -1): it overlaps what is registered, -1."),
	PS_METHOD("unregister_buffer", unregister_buffer,
		  "buffer_ptr)\n--\n\n"
		  "0, -600 (a dummy: -1): nothing is registered there."),
	{"_registered_bytes", registered_bytes, METH_O,
	 "_registered_bytes($self, addr)\n--\n\n"
	 "From there to the end of registered memory; 0: it is in none."},
	PS_METHOD("alloc_from_mem_pool", alloc_from_mem_pool,
		  "size)\n--\n\n"
		  "An address in the memory that is shared with the daemon\n"
		  "(setup_dummy()); 0: no room."),
	PS_METHOD("mount_segment", mount_segment,
		  "path, size, offset=0, protocol='tcp', location='')\n--\n\n"
		  "Lend part of a file, as one in /dev/shm.\n\n"
		  "{'ret': 0 or a negative code, 'segment_ids': [...]}"),
	PS_METHOD("allocate_and_mount_segment", allocate_and_mount_segment,
		  "size, protocol='tcp', location='')\n--\n\n"
		  "Lend fresh memory.\n\n{'ret': 0 or a negative code, "
		  "'segment_ids': [...], 'allocated_size': bytes}"),
	PS_METHOD("unmount_segment", unmount_segment, UNMOUNT_DOC),
	PS_METHOD("unmount_and_free_segment", unmount_and_free_segment,
		  UNMOUNT_DOC),
	PS_METHOD("unmount_local_disk_segment", unmount_disk,
		  "grace_period_seconds=0)\n--\n\n"
		  "Take a disk back. None is lent: -101; not set up: -1."),
	{"get_offload_rpc_read_count", get_disk_reads, METH_NOARGS,
	 "get_offload_rpc_read_count($self)\n--\n\n"
	 "How many reads came from a disk: none."},
	{0},
};
