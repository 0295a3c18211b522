/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.c - methods that set a store up and close it, and what it is
 */
#include <unistd.h>

#include <te/store_setup.h>

#include "python/src/args.h"
#include "python/src/store/methods.h"
#include "python/src/store/pairs.h"

#define ENGINE_CAPSULE "mooncake.te_engine"

/* Begins a setup. False: it has a client already, or is getting one. */
static bool begin_setup(struct ps_store *self, const char *function)
{
	/* A client of the parent process is of no use in a forked child. */
	if (self->client && self->client->pid != getpid())
		ps_client_drop(self);
	if (self->client || self->setting_up) {
		py_warn(function,
			"the store is set up already: close it first");
		return false;
	}
	self->setting_up = true;
	return true;
}

/* 0, or a code of @rc; NULL: raised. */
static PyObject *finish_setup(struct ps_store *self, int rc,
			      struct te_store *te, PyObject *engine,
			      bool is_dummy)
{
	self->setting_up = false;
	if (!rc && !ps_client_give(self, te, engine, is_dummy))
		return NULL;
	return PyLong_FromLong(rc);
}

/* Sets *out to the te_engine in @engine, or to NULL for None. -1: raised. */
static int read_engine(PyObject *engine, struct te_engine **out)
{
	*out = NULL;
	if (!engine || engine == Py_None)
		return 0;
	if (!PyCapsule_IsValid(engine, ENGINE_CAPSULE)) {
		PyErr_Format(PyExc_TypeError,
			     "engine must be what get_engine() of a "
			     "TransferEngine returned, not %R",
			     (PyObject *)Py_TYPE(engine));
		return -1;
	}
	*out = PyCapsule_GetPointer(engine, ENGINE_CAPSULE);
	return *out ? 0 : -1;
}

static PyObject *join_pool(struct ps_store *self, const struct ps_pairs *pairs,
			   PyObject *engine)
{
	struct te_store *te = NULL;
	struct te_engine *of_engine;
	int rc;

	if (read_engine(engine, &of_engine))
		return NULL;
	if (!begin_setup(self, "setup"))
		return PyLong_FromLong(TE_STORE_INVALID_PARAMS);
	Py_BEGIN_ALLOW_THREADS;
	rc = te_store_setup_pairs(pairs->pairs, pairs->n, of_engine, &te);
	Py_END_ALLOW_THREADS;
	return finish_setup(self, rc, te, of_engine ? engine : NULL, false);
}

/* setup(dict), or setup(config=dict): the dictionary, borrowed; else NULL. */
static PyObject *only_dict(PyObject *args, PyObject *keywords)
{
	Py_ssize_t n_keywords = keywords ? PyDict_Size(keywords) : 0;
	PyObject *only = NULL;

	if (PyTuple_Size(args) == 1 && !n_keywords)
		only = PyTuple_GetItem(args, 0);
	else if (!PyTuple_Size(args) && n_keywords == 1)
		only = PyDict_GetItemString(keywords, "config");
	return only && PyDict_Check(only) ? only : NULL;
}

static PyObject *setup(PyObject *self, PyObject *args, PyObject *keywords)
{
	struct ps_pairs pairs = {0};
	PyObject *dict = only_dict(args, keywords), *engine = NULL;
	PyObject *result = NULL;
	int rc = dict ? ps_pairs_of_dict(&pairs, dict)
		      : ps_pairs_of_call(&pairs, args, keywords, &engine);

	if (rc == PY_ARG_RANGE)
		result = PyLong_FromLong(TE_STORE_INVALID_PARAMS);
	else if (!rc)
		result = join_pool((struct ps_store *)self, &pairs, engine);
	ps_pairs_free(&pairs);
	return result;
}

static PyObject *init_all(PyObject *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = {"protocol", "device_name", "mount_segment_size",
				NULL};
	PyObject *protocol, *devices, *size = NULL, *dict, *result = NULL;
	struct ps_pairs pairs = {0};
	uint64_t bytes = 0;
	const char *unused;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O:init_all", names,
					 &protocol, &devices, &size) ||
	    py_arg_text(protocol, names[0], &unused) < 0 ||
	    py_arg_text(devices, names[1], &unused) < 0 ||
	    (size && py_arg_uint64(size, names[2], &bytes) < 0))
		return NULL;
	dict = Py_BuildValue("{sssssOsO}", "local_hostname", "localhost",
			     "metadata_server", "P2PHANDSHAKE", "protocol",
			     protocol, "rdma_devices", devices);
	if (!dict ||
	    (size && PyDict_SetItemString(dict, "global_segment_size", size))) {
		Py_XDECREF(dict);
		return NULL;
	}
	rc = ps_pairs_of_dict(&pairs, dict);
	if (rc == PY_ARG_RANGE)
		result = PyLong_FromLong(TE_STORE_INVALID_PARAMS);
	else if (!rc)
		result = join_pool((struct ps_store *)self, &pairs, NULL);
	ps_pairs_free(&pairs);
	Py_DECREF(dict);
	return result;
}

static PyObject *setup_dummy(PyObject *object, PyObject *args,
			     PyObject *keywords)
{
	static char *names[] = {"mem_pool_size", "local_buffer_size",
				"server_address", NULL};
	struct ps_store *self = (struct ps_store *)object;
	struct te_store_config config = {.size = sizeof(config)};
	PyObject *pool, *buffer, *address;
	struct te_store *te = NULL;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO:setup_dummy",
					 names, &pool, &buffer, &address))
		return NULL;
	rc = py_arg_number("setup_dummy", pool, names[0], &config.pool_bytes);
	if (!rc)
		rc = py_arg_number("setup_dummy", buffer, names[1],
				   &config.local_buffer_bytes);
	if (!rc) {
		rc = py_arg_text(address, names[2], &config.daemon);
		if (rc == PY_ARG_RANGE)
			py_warn("setup_dummy", "server_address is no text");
	}
	if (rc == PY_ARG_RAISED)
		return NULL;
	if (rc || !begin_setup(self, "setup_dummy"))
		return PyLong_FromLong(TE_STORE_INVALID_PARAMS);
	Py_BEGIN_ALLOW_THREADS;
	config.pin_mib = te_store_pin_mib();
	rc = te_store_setup(&config, &te);
	Py_END_ALLOW_THREADS;
	return finish_setup(self, rc, te, NULL, true);
}

static PyObject *close_store(PyObject *self, PyObject *unused)
{
	(void)unused;
	ps_client_drop((struct ps_store *)self);
	return PyLong_FromLong(0);
}

static PyObject *health_check(PyObject *object, PyObject *unused)
{
	struct ps_store *self = (struct ps_store *)object;

	(void)unused;
	if (!self->client || self->client->pid != getpid())
		return PyLong_FromLong(1);
	/* Keeps the GIL: te_store_health() does not block. */
	return PyLong_FromLong(te_store_health(self->client->te) ? 2 : 0);
}

static PyObject *get_hostname(PyObject *object, PyObject *unused)
{
	struct ps_store *self = (struct ps_store *)object;

	(void)unused;
	if (!self->client || self->client->pid != getpid())
		return PyUnicode_FromString("");
	return PyUnicode_FromString(te_store_hostname(self->client->te));
}

static PyObject *local_buffer_bytes(PyObject *object, PyObject *unused)
{
	struct ps_store *self = (struct ps_store *)object;
	struct te_store_stats stats;

	(void)unused;
	if (!self->client || self->client->pid != getpid())
		return Py_NewRef(Py_None);
	/* Keeps the GIL: te_store_stats() does not block. */
	te_store_stats(self->client->te, &stats);
	return PyLong_FromUnsignedLongLong(stats.local_buffer_bytes);
}

/* Names what consumers look for; see pairs.c. */
#define SETUP_DOC                                                                \
	"local_hostname, metadata_server=None, global_segment_size=None, "       \
	"local_buffer_size=None, protocol=None, rdma_devices=None, "             \
	"master_server_addr=None, engine=None, enable_ssd_offload=False, "       \
	"ssd_offload_path='', tenant_id='default', "                             \
	"enable_client_http_server=False, client_http_port=9300)\n--\n\n"        \
	"Join a pool: 0, or a negative code and a line of the log.\n\n"          \
	"The first seven parameters are required: local_hostname,\n"             \
	"metadata_server, global_segment_size, local_buffer_size, protocol,\n"   \
	"rdma_devices (or device_name), master_server_addr (or\n"                \
	"master_server_address). Sizes are bytes; 0: none. engine: what\n"       \
	"get_engine() of a TransferEngine returned, or None. Accepted without\n" \
	"effect: enable_ssd_offload, ssd_offload_path. tenant_id: whose keys\n"  \
	"are meant. enable_client_http_server: serve /health and /metrics on\n"  \
	"client_http_port.\n\n"                                                  \
	"Or setup(config): a dictionary of the same, whose values are taken\n"   \
	"by str(); sizes may say \"4 GB\", and only local_hostname and\n"        \
	"metadata_server are required."

const PyMethodDef ps_life_methods[] = {
	PS_METHOD("setup", setup, SETUP_DOC),
	PS_METHOD("setup_dummy", setup_dummy,
		  "mem_pool_size, local_buffer_size, server_address)\n--\n\n"
		  "Be a client by this host's mooncake_client.\n\n"
		  "server_address: its host:port, or the path of its socket."),
	PS_METHOD("init_all", init_all,
		  "protocol, device_name, mount_segment_size=16777216)\n--\n\n"
		  "setup() of a client of a master on this host."),
	{"close", close_store, METH_NOARGS,
	 "close($self)\n--\n\n"
	 "Leave the pool; 0. What lies in memory of this client goes to other\n"
	 "owners before, for drain_timeout at most (10 s; 0: it is lost).\n"
	 "Calls of other threads and BufferHandles end first: the last of\n"
	 "them leaves. setup() may follow."},
	{"health_check", health_check, METH_NOARGS,
	 "health_check($self)\n--\n\n"
	 "0: well, 1: not set up or closed, 2: the master is away."},
	{"get_hostname", get_hostname, METH_NOARGS,
	 "get_hostname($self)\n--\n\n"
	 "host:port of this client, its name as a preferred_segment."},
	{"_local_buffer_bytes", local_buffer_bytes, METH_NOARGS,
	 "_local_buffer_bytes($self)\n--\n\n"
	 "Size of the local buffer; None: not set up or closed."},
	{0},
};
