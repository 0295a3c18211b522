/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - the store's codes: their names, and those of engine errors */
#include <errno.h>

#include "store/client/client.h"

struct name {
	int code;
	const char *text;
};

static const struct name names[] = {
	{TE_STORE_OK, "OK"},
	{TE_STORE_INTERNAL_ERROR, "INTERNAL_ERROR"},
	{TE_STORE_BUFFER_OVERFLOW, "BUFFER_OVERFLOW"},
	{TE_STORE_SEGMENT_NOT_FOUND, "SEGMENT_NOT_FOUND"},
	{TE_STORE_SEGMENT_ALREADY_EXISTS, "SEGMENT_ALREADY_EXISTS"},
	{TE_STORE_CLIENT_NOT_FOUND, "CLIENT_NOT_FOUND"},
	{TE_STORE_NO_AVAILABLE_HANDLE, "NO_AVAILABLE_HANDLE"},
	{TE_STORE_INVALID_VERSION, "INVALID_VERSION"},
	{TE_STORE_INVALID_KEY, "INVALID_KEY"},
	{TE_STORE_INVALID_PARAMS, "INVALID_PARAMS"},
	{TE_STORE_ILLEGAL_CLIENT, "ILLEGAL_CLIENT"},
	{TE_STORE_INVALID_WRITE, "INVALID_WRITE"},
	{TE_STORE_REPLICA_IS_NOT_READY, "REPLICA_IS_NOT_READY"},
	{TE_STORE_OBJECT_NOT_FOUND, "OBJECT_NOT_FOUND"},
	{TE_STORE_OBJECT_ALREADY_EXISTS, "OBJECT_ALREADY_EXISTS"},
	{TE_STORE_OBJECT_HAS_LEASE, "OBJECT_HAS_LEASE"},
	{TE_STORE_LEASE_EXPIRED, "LEASE_EXPIRED"},
	{TE_STORE_OBJECT_HAS_REPLICATION_TASK, "OBJECT_HAS_REPLICATION_TASK"},
	{TE_STORE_REPLICA_NOT_FOUND, "REPLICA_NOT_FOUND"},
	{TE_STORE_TRANSFER_FAIL, "TRANSFER_FAIL"},
	{TE_STORE_CHECKSUM_MISMATCH, "CHECKSUM_MISMATCH"},
	{TE_STORE_RPC_FAIL, "RPC_FAIL"},
	{TE_STORE_RPC_TIMEOUT, "RPC_TIMEOUT"},
};

const char *te_store_strerror(int code)
{
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].code == code)
			return names[i].text;
	return "UNKNOWN";
}

int tei_store_code(int error)
{
	switch (error) {
	case 0:
		return TE_STORE_OK;
	case -EINVAL:
	case -EEXIST:
	case -ENOENT:
		return TE_STORE_INVALID_PARAMS;
	case -ETIMEDOUT:
	case -ECANCELED:
	case -ESTALE:
	case -EACCES:
	case -EFAULT:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -EHOSTUNREACH:
	case -EPROTO:
	case -EAGAIN:
	case -EIO:
		return TE_STORE_TRANSFER_FAIL;
	default:
		return TE_STORE_INTERNAL_ERROR;
	}
}
