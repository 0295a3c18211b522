/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor.c - methods for tensors, which are Python: mooncake/_tensors.py
 *
 * That module imports torch, so it is read when the first of them is called.
 */
#include "python/src/store/methods.h"

/* The function @name of that module, with the store before the arguments. */
static PyObject *delegate(const char *name, PyObject *self, PyObject *args,
			  PyObject *keywords)
{
	PyObject *module = PyImport_ImportModule("mooncake._tensors");
	PyObject *function = NULL, *first = NULL, *all = NULL, *result = NULL;

	if (module)
		function = PyObject_GetAttrString(module, name);
	if (function)
		first = PyTuple_Pack(1, self);
	if (first)
		all = PySequence_Concat(first, args);
	if (all)
		result = PyObject_Call(function, all, keywords);
	Py_XDECREF(all);
	Py_XDECREF(first);
	Py_XDECREF(function);
	Py_XDECREF(module);
	return result;
}

#define METHOD(name)                                          \
	static PyObject *name(PyObject *self, PyObject *args, \
			      PyObject *keywords)             \
	{                                                     \
		return delegate(#name, self, args, keywords); \
	}

METHOD(put_tensor)
METHOD(batch_put_tensor)
METHOD(pub_tensor)
METHOD(batch_pub_tensor)
METHOD(upsert_tensor)
METHOD(batch_upsert_tensor)
METHOD(upsert_pub_tensor)
METHOD(batch_upsert_pub_tensor)
METHOD(get_tensor)
METHOD(batch_get_tensor)
METHOD(get_tensor_into)
METHOD(batch_get_tensor_into)
METHOD(put_tensor_from)
METHOD(batch_put_tensor_from)
METHOD(upsert_tensor_from)
METHOD(batch_upsert_tensor_from)
METHOD(put_tensor_with_tp)
METHOD(batch_put_tensor_with_tp)
METHOD(pub_tensor_with_tp)
METHOD(batch_pub_tensor_with_tp)
METHOD(get_tensor_with_tp)
METHOD(batch_get_tensor_with_tp)

const PyMethodDef ps_tensor_methods[] = {
	PS_METHOD("put_tensor", put_tensor,
		  "key, tensor)\n--\n\n"
		  "Store a tensor. As put()."),
	PS_METHOD("batch_put_tensor", batch_put_tensor,
		  "keys, tensors_list)\n--\n\n"
		  "Store tensors. A code for each key."),
	PS_METHOD("pub_tensor", pub_tensor,
		  "key, tensor, config=None)\n--\n\n"
		  "Store a tensor. As put()."),
	PS_METHOD("batch_pub_tensor", batch_pub_tensor,
		  "keys, tensors_list, config=None)\n--\n\n"
		  "Store tensors. A code for each key."),
	PS_METHOD("upsert_tensor", upsert_tensor,
		  "key, tensor)\n--\n\n"
		  "Store a tensor. As upsert()."),
	PS_METHOD("batch_upsert_tensor", batch_upsert_tensor,
		  "keys, tensors_list)\n--\n\n"
		  "Store tensors in place of others."),
	PS_METHOD("upsert_pub_tensor", upsert_pub_tensor,
		  "key, tensor, config=None)\n--\n\n"
		  "Store a tensor. As upsert()."),
	PS_METHOD("batch_upsert_pub_tensor", batch_upsert_pub_tensor,
		  "keys, tensors_list, config=None)\n--\n\n"
		  "Store tensors in place of others."),
	PS_METHOD("get_tensor", get_tensor,
		  "key)\n--\n\n"
		  "A tensor of its own memory; None for a miss."),
	PS_METHOD("batch_get_tensor", batch_get_tensor,
		  "keys)\n--\n\n"
		  "Tensors of their own memory; None for a miss."),
	PS_METHOD(
		"get_tensor_into", get_tensor_into,
		"key, buffer_ptr, size)\n--\n\n"
		"A tensor in that memory, behind its metadata; None for a miss."),
	PS_METHOD("batch_get_tensor_into", batch_get_tensor_into,
		  "keys, buffer_ptrs, sizes)\n--\n\n"
		  "As get_tensor_into(), for each key."),
	PS_METHOD("put_tensor_from", put_tensor_from,
		  "key, buffer_ptr, size)\n--\n\n"
		  "Store metadata and data that lie there. As put_from()."),
	PS_METHOD("batch_put_tensor_from", batch_put_tensor_from,
		  "keys, buffer_ptrs, sizes)\n--\n\n"
		  "A code for each key."),
	PS_METHOD("upsert_tensor_from", upsert_tensor_from,
		  "key, buffer_ptr, size)\n--\n\n"
		  "As upsert_from()."),
	PS_METHOD("batch_upsert_tensor_from", batch_upsert_tensor_from,
		  "keys, buffer_ptrs, sizes)\n--\n\n"
		  "A code for each key."),
	PS_METHOD("put_tensor_with_tp", put_tensor_with_tp,
		  "key, tensor, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		  "Store all shards of a tensor, under <key>_tp_<rank>."),
	PS_METHOD(
		"batch_put_tensor_with_tp", batch_put_tensor_with_tp,
		"base_keys, tensors_list, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		"A code for each key."),
	PS_METHOD(
		"pub_tensor_with_tp", pub_tensor_with_tp,
		"key, tensor, config=None, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		"Store all shards of a tensor, under <key>_tp_<rank>."),
	PS_METHOD(
		"batch_pub_tensor_with_tp", batch_pub_tensor_with_tp,
		"base_keys, tensors_list, config=None, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		"A code for each key."),
	PS_METHOD("get_tensor_with_tp", get_tensor_with_tp,
		  "key, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		  "The shard of a rank; None for a miss."),
	PS_METHOD("batch_get_tensor_with_tp", batch_get_tensor_with_tp,
		  "base_keys, tp_rank=0, tp_size=1)\n--\n\n"
		  "The shards of a rank; None for a miss."),
	{0},
};
