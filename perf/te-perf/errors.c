/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - names by which hosts tell each other of errors */
#include "perf/te-perf/errors.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define ROW(error)               \
	{                        \
		-(error), #error \
	}

static const struct {
	int error;
	const char *name;
} table[] = {
	{0, "none"},       ROW(EIO),           ROW(EACCES),
	ROW(EADDRINUSE),   ROW(EADDRNOTAVAIL), ROW(EAGAIN),
	ROW(EBADMSG),      ROW(EBUSY),         ROW(ECANCELED),
	ROW(ECONNABORTED), ROW(ECONNREFUSED),  ROW(ECONNRESET),
	ROW(EDQUOT),       ROW(EEXIST),        ROW(EFAULT),
	ROW(EHOSTUNREACH), ROW(EINVAL),        ROW(EMFILE),
	ROW(EMSGSIZE),     ROW(ENAMETOOLONG),  ROW(ENETDOWN),
	ROW(ENETUNREACH),  ROW(ENFILE),        ROW(ENOBUFS),
	ROW(ENODATA),      ROW(ENODEV),        ROW(ENOENT),
	ROW(ENOMEM),       ROW(ENOSPC),        ROW(ENOSYS),
	ROW(ENOTCONN),     ROW(EOPNOTSUPP),    ROW(EOVERFLOW),
	ROW(EPERM),        ROW(EPIPE),         ROW(EPROTO),
	ROW(ERANGE),       ROW(ESTALE),        ROW(ETIMEDOUT),
};

#define N_ROWS (sizeof(table) / sizeof(*table))

const char *error_name(int error)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (table[i].error == error)
			return table[i].name;
	return "EIO";
}

int error_named(const char *name)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (!strcmp(table[i].name, name))
			return table[i].error;
	return -EIO;
}
