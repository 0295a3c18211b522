/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - protected mode for the ports that are served in Python
 */
#include <errno.h>
#include <string.h>

#include "python/src/engine/engine.h"

#define WHY_LEN 400

/*
 * _peer_refusal(fd, allow_uids): None, or why the other end of the connected
 * socket is not to be served. ValueError: allow_uids.
 */
PyObject *py_peer_refusal(PyObject *module, PyObject *args)
{
	const char *allow_uids = NULL;
	char why[WHY_LEN] = "";
	int fd, rc;

	(void)module;
	if (!PyArg_ParseTuple(args, "i|z:_peer_refusal", &fd, &allow_uids))
		return NULL;
	rc = te_peer_allowed(fd, allow_uids, why, sizeof(why));
	if (!rc)
		Py_RETURN_NONE;
	if (rc == -EINVAL)
		return PyErr_Format(PyExc_ValueError,
				    "allow_uids: '%s' is not a list of user "
				    "ids (1000,2000-2999) or any",
				    allow_uids);
	return PyUnicode_FromString(rc == -EACCES ? why : te_strerror(rc));
}
