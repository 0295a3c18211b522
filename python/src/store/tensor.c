/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor.c - methods for tensors, which are Python: mooncake/_tensors.py,
 * _gpu_tensors.py, _shards.py, _gather.py and _safetensors.py
 *
 * These modules import torch, so each is imported when the first of its methods
 * is called.
 */
#include "python/src/store/methods.h"

/* A function of Python's, with the store before the arguments. */
static PyObject *delegate(const char *from, const char *name, PyObject *self,
			  PyObject *args, PyObject *keywords)
{
	PyObject *module = PyImport_ImportModule(from);
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

#define METHOD(module, name)                                            \
	static PyObject *name(PyObject *self, PyObject *args,           \
			      PyObject *keywords)                       \
	{                                                               \
		return delegate("mooncake." #module, #name, self, args, \
				keywords);                              \
	}

METHOD(_tensors, put_tensor)
METHOD(_tensors, batch_put_tensor)
METHOD(_tensors, pub_tensor)
METHOD(_tensors, batch_pub_tensor)
METHOD(_tensors, upsert_tensor)
METHOD(_tensors, batch_upsert_tensor)
METHOD(_tensors, upsert_pub_tensor)
METHOD(_tensors, batch_upsert_pub_tensor)
METHOD(_tensors, get_tensor)
METHOD(_tensors, batch_get_tensor)
METHOD(_tensors, get_tensor_into)
METHOD(_tensors, batch_get_tensor_into)
METHOD(_tensors, put_tensor_from)
METHOD(_tensors, batch_put_tensor_from)
METHOD(_tensors, upsert_tensor_from)
METHOD(_tensors, batch_upsert_tensor_from)
METHOD(_gpu_tensors, get_tensor_into_cuda)
METHOD(_gpu_tensors, batch_get_tensor_into_cuda)

METHOD(_shards, put_tensor_with_tp)
METHOD(_shards, batch_put_tensor_with_tp)
METHOD(_shards, pub_tensor_with_tp)
METHOD(_shards, batch_pub_tensor_with_tp)
METHOD(_shards, put_tensor_with_tp_from)
METHOD(_shards, batch_put_tensor_with_tp_from)
METHOD(_shards, get_tensor_with_tp)
METHOD(_shards, batch_get_tensor_with_tp)
METHOD(_shards, get_tensor_with_tp_into)
METHOD(_shards, batch_get_tensor_with_tp_into)
METHOD(_shards, put_tensor_with_parallelism)
METHOD(_shards, upsert_tensor_with_parallelism)
METHOD(_shards, batch_put_tensor_with_parallelism)
METHOD(_shards, batch_upsert_tensor_with_parallelism)
METHOD(_shards, put_tensor_with_parallelism_from)
METHOD(_shards, upsert_tensor_with_parallelism_from)
METHOD(_shards, batch_put_tensor_with_parallelism_from)
METHOD(_shards, batch_upsert_tensor_with_parallelism_from)

METHOD(_gather, get_tensor_with_parallelism)
METHOD(_gather, batch_get_tensor_with_parallelism)
METHOD(_gather, get_tensor_with_parallelism_into)
METHOD(_gather, batch_get_tensor_with_parallelism_into)

METHOD(_safetensors, save_tensor_to_safetensor)
METHOD(_safetensors, load_tensor_from_safetensor)

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
	PS_METHOD(
		"get_tensor_into_cuda", get_tensor_into_cuda,
		"key, tensor)\n--\n\n"
		"The data of a tensor into another, on a GPU or not. Its bytes, or a code."),
	PS_METHOD("batch_get_tensor_into_cuda", batch_get_tensor_into_cuda,
		  "keys, tensors_list)\n--\n\n"
		  "As get_tensor_into_cuda(), for each key."),
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
	PS_METHOD(
		"put_tensor_with_tp_from", put_tensor_with_tp_from,
		"key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		"Store all shards of a tensor that lies there with its metadata; of a shard, it alone."),
	PS_METHOD(
		"batch_put_tensor_with_tp_from", batch_put_tensor_with_tp_from,
		"base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		"A code for each key."),
	PS_METHOD(
		"get_tensor_with_tp_into", get_tensor_with_tp_into,
		"key, buffer_ptr, size, tp_rank=0, tp_size=1, split_dim=0)\n--\n\n"
		"As get_tensor_into(), the shard of a rank."),
	PS_METHOD("batch_get_tensor_with_tp_into",
		  batch_get_tensor_with_tp_into,
		  "base_keys, buffer_ptrs, sizes, tp_rank=0, tp_size=1)\n--\n\n"
		  "As get_tensor_into(), for each key."),
	PS_METHOD(
		"put_tensor_with_parallelism", put_tensor_with_parallelism,
		"key, tensor, parallelism=None, config=None, writer_partition=None)\n--\n\n"
		"Store a shard: the tensor itself, or of several axes its part. 0 or a code."),
	PS_METHOD(
		"batch_put_tensor_with_parallelism",
		batch_put_tensor_with_parallelism,
		"keys, tensors_list, parallelisms=None, config=None, writer_partitions=None)\n--\n\n"
		"A code for each key."),
	PS_METHOD(
		"put_tensor_with_parallelism_from",
		put_tensor_with_parallelism_from,
		"key, buffer_ptr, size, parallelism=None, config=None, writer_partition=None)\n--\n\n"
		"The same, of a tensor that lies there with its metadata."),
	PS_METHOD(
		"batch_put_tensor_with_parallelism_from",
		batch_put_tensor_with_parallelism_from,
		"keys, buffer_ptrs, sizes, parallelisms=None, config=None, writer_partitions=None)\n--\n\n"
		"A code for each key."),
	PS_METHOD(
		"upsert_tensor_with_parallelism",
		upsert_tensor_with_parallelism,
		"key, tensor, parallelism=None, config=None, writer_partition=None)\n--\n\n"
		"Store a shard in place of another: the tensor itself, or of several axes its part. 0 or a code."),
	PS_METHOD(
		"batch_upsert_tensor_with_parallelism",
		batch_upsert_tensor_with_parallelism,
		"keys, tensors_list, parallelisms=None, config=None, writer_partitions=None)\n--\n\n"
		"A code for each key."),
	PS_METHOD(
		"upsert_tensor_with_parallelism_from",
		upsert_tensor_with_parallelism_from,
		"key, buffer_ptr, size, parallelism=None, config=None, writer_partition=None)\n--\n\n"
		"The same, of a tensor that lies there with its metadata."),
	PS_METHOD(
		"batch_upsert_tensor_with_parallelism_from",
		batch_upsert_tensor_with_parallelism_from,
		"keys, buffer_ptrs, sizes, parallelisms=None, config=None, writer_partitions=None)\n--\n\n"
		"A code for each key."),
	PS_METHOD(
		"get_tensor_with_parallelism", get_tensor_with_parallelism,
		"key, target=None)\n--\n\n"
		"A tensor as it is stored, a shard of any split, or the whole; None for a miss."),
	PS_METHOD("batch_get_tensor_with_parallelism",
		  batch_get_tensor_with_parallelism,
		  "keys, targets=None)\n--\n\n"
		  "The same for each key."),
	PS_METHOD("get_tensor_with_parallelism_into",
		  get_tensor_with_parallelism_into,
		  "key, buffer_ptr, size, target=None)\n--\n\n"
		  "The same in that memory, behind its metadata."),
	PS_METHOD("batch_get_tensor_with_parallelism_into",
		  batch_get_tensor_with_parallelism_into,
		  "keys, buffer_ptrs, sizes, targets=None)\n--\n\n"
		  "The same for each key."),
	PS_METHOD(
		"save_tensor_to_safetensor", save_tensor_to_safetensor,
		"key, file_name=None)\n--\n\n"
		"Write a tensor to a file, by default of the key's name. 0 or a code."),
	PS_METHOD(
		"load_tensor_from_safetensor", load_tensor_from_safetensor,
		"key=None, file_name=None)\n--\n\n"
		"Store the tensor of a file and return it; None when there is none."),
	{0},
};
