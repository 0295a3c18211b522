/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segments.c - segments of peers, by name
 *
 * A segment is opened when it is first needed and stays open until its peer was
 * found to have restarted.
 */
#include "python/src/engine/engine.h"

#include <errno.h>

/* Sets *id of the open segment @name, or to 0. -1: raised. */
static int look_up(const struct py_engine *self, const char *name,
		   te_segment_id *id)
{
	PyObject *value = PyDict_GetItemString(self->segments, name);

	*id = value ? PyLong_AsUnsignedLongLong(value) : 0;
	return PyErr_Occurred() ? -1 : 0;
}

/*
 * @id was opened for @name, which others may have done meanwhile: that is the
 * same segment, counted once more, unless it has the number @stale.
 */
static int keep(struct py_engine *self, const char *name, te_segment_id stale,
		te_segment_id id)
{
	PyObject *value = PyLong_FromUnsignedLongLong(id);
	te_segment_id old;
	int rc = value ? look_up(self, name, &old) : -1;

	if (!rc && old == id) {
		te_segment_close(self->te, id); /* counted twice */
	} else if (!rc) {
		rc = PyDict_SetItemString(self->segments, name, value);
		/* Another than the stale one is in use by who opened it. */
		if (!rc && old && old == stale)
			te_segment_close(self->te, old);
	}
	Py_XDECREF(value);
	if (!rc)
		return 0;
	PyErr_Clear();
	te_segment_close(self->te, id);
	return -ENOMEM;
}

int py_segment_find(struct py_engine *self, const char *name,
		    te_segment_id stale, uint32_t timeout_ms,
		    te_segment_id *out)
{
	te_segment_id id;
	int rc;

	if (look_up(self, name, &id)) {
		PyErr_Clear();
		return -ENOMEM;
	}
	if (id && id != stale) {
		*out = id;
		return 0;
	}
	Py_BEGIN_ALLOW_THREADS;
	if (timeout_ms == PY_NO_WAIT)
		rc = te_segment_expect(self->te, name, &id);
	else
		rc = te_segment_open(self->te, name,
				     timeout_ms ? timeout_ms : 1, &id);
	Py_END_ALLOW_THREADS;
	if (!rc)
		rc = keep(self, name, stale, id);
	if (!rc)
		*out = id;
	return rc;
}

int py_segment_fresh(struct py_engine *self, const char *name,
		     uint32_t timeout_ms, te_segment_id *out)
{
	size_t n = 0;
	int rc = py_segment_find(self, name, 0, timeout_ms, out);

	if (rc)
		return rc;
	Py_BEGIN_ALLOW_THREADS;
	rc = te_segment_regions(self->te, *out, NULL, &n);
	Py_END_ALLOW_THREADS;
	if (rc != -ESTALE && rc != -EAGAIN) /* restarted, not met yet */
		return 0;
	return py_segment_find(self, name, *out, timeout_ms, out);
}

/* The first argument of a method, a name; NULL: raised, or *refused is set. */
static const char *name_of(PyObject *value, const char *method,
			   const char *argument, PyObject **refused)
{
	const char *name = NULL;
	int rc = py_arg_text(value, argument, &name);

	*refused = rc ? py_bad_argument(method, argument, rc) : NULL;
	return name;
}

static PyObject *get_first_buffer_address(PyObject *object, PyObject *args,
					  PyObject *kwargs)
{
	static char *names[] = {"segment_name", NULL};
	const char *method = "get_first_buffer_address", *name;
	struct py_engine *self = (struct py_engine *)object;
	struct te_segment_region region = {0};
	PyObject *value, *refused;
	te_segment_id id;
	size_t n = 1;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "O:get_first_buffer_address", names, &value))
		return NULL;
	name = name_of(value, method, "segment_name", &refused);
	if (!name && !refused)
		return NULL;
	Py_XDECREF(refused);
	if (!name || !py_is_ready(self, method))
		return PyLong_FromLong(0);
	rc = py_segment_fresh(self, name, self->timeout_ms, &id);
	if (!rc)
		rc = te_segment_regions(self->te, id, &region, &n);
	if (!rc && !n)
		rc = -ENODATA;
	if (rc)
		py_warn(method, "segment_name \"%s\": %s", name,
			te_strerror(rc));
	return PyLong_FromUnsignedLongLong(rc ? 0 : region.addr);
}

static PyObject *warmup_efa_segment(PyObject *object, PyObject *args,
				    PyObject *kwargs)
{
	static char *names[] = {"segment_name", NULL};
	const char *method = "warmup_efa_segment", *name;
	struct py_engine *self = (struct py_engine *)object;
	PyObject *value, *refused;
	te_segment_id id;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:warmup_efa_segment",
					 names, &value))
		return NULL;
	name = name_of(value, method, "segment_name", &refused);
	if (!name)
		return refused;
	if (!py_is_ready(self, method))
		return PyLong_FromLong(PY_FAILED);
	rc = py_segment_fresh(self, name, self->timeout_ms, &id);
	if (!rc) {
		Py_BEGIN_ALLOW_THREADS;
		rc = te_segment_warm_up(self->te, id, self->timeout_ms, NULL);
		Py_END_ALLOW_THREADS;
	}
	if (rc)
		py_warn(method, "segment_name \"%s\": %s", name,
			te_strerror(rc));
	return PyLong_FromLong(rc ? PY_ENDPOINT : 0);
}

/* Time for a silent peer: who asks has others to look after. */
#define PROBE_MS 2000

static PyObject *send_probe(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"peer_server_name", NULL};
	const char *method = "send_probe", *name;
	struct py_engine *self = (struct py_engine *)object;
	PyObject *value, *refused;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:send_probe", names,
					 &value))
		return NULL;
	name = name_of(value, method, "peer_server_name", &refused);
	if (!name)
		return refused;
	if (!py_is_ready(self, method))
		return PyLong_FromLong(PY_FAILED);
	Py_BEGIN_ALLOW_THREADS;
	rc = te_peer_probe(self->te, name, PROBE_MS, NULL);
	Py_END_ALLOW_THREADS;
	if (rc)
		py_warn(method, "peer_server_name \"%s\": %s", name,
			te_strerror(rc));
	return PyLong_FromLong(rc ? PY_FAILED : 0);
}

PyMethodDef py_segment_methods[] = {
	{"get_first_buffer_address",
	 (PyCFunction)(void (*)(void))get_first_buffer_address,
	 METH_VARARGS | METH_KEYWORDS,
	 "get_first_buffer_address(segment_name)\n--\n\n"
	 "Address of the lowest region that the peer publishes; 0: none."},
	{"warmup_efa_segment", (PyCFunction)(void (*)(void))warmup_efa_segment,
	 METH_VARARGS | METH_KEYWORDS,
	 "warmup_efa_segment(segment_name)\n--\n\n"
	 "Connect now instead of with the first transfer. 0 or -201."},
	{"send_probe", (PyCFunction)(void (*)(void))send_probe,
	 METH_VARARGS | METH_KEYWORDS,
	 "send_probe(peer_server_name)\n--\n\n"
	 "Whether the peer answers. 0 or -1: at once when nobody listens there,\n"
	 "after 2 s when it is silent."},
	{NULL, NULL, 0, NULL},
};
