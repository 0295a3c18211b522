/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - errors: to and from the wire, and as text
 *
 * errno values differ between architectures, so none is sent; the table below
 * is the only place where the two meet.
 */
#include <errno.h>
#include <string.h>

#include <te/te.h>

#include "te/backend.h"

static const struct {
	uint32_t status;
	int error;
} table[] = {
	{TEI_STATUS_OK, 0},
	{TEI_STATUS_ACCESS, -EACCES},
	{TEI_STATUS_RANGE, -EFAULT},
	{TEI_STATUS_STALE, -ESTALE},
	{TEI_STATUS_BAD, -EBADMSG},
	{TEI_STATUS_NO_MEMORY, -ENOMEM},
	{TEI_STATUS_BUSY, -EAGAIN},
	{TEI_STATUS_CANCELED, -ECANCELED},
	{TEI_STATUS_UNSUPPORTED, -EOPNOTSUPP},
	{TEI_STATUS_VERSION, -EPROTO},
	{TEI_STATUS_INTERNAL, -EIO},
};

#define N_ROWS (sizeof(table) / sizeof(table[0]))

int tei_status_to_errno(uint32_t status)
{
	size_t i;

	for (i = 0; i < N_ROWS; i++) {
		if (table[i].status == status)
			return table[i].error;
	}
	return -EIO;
}

uint32_t tei_status_from_errno(int error)
{
	size_t i;

	for (i = 0; i < N_ROWS; i++) {
		if (table[i].error == error)
			return table[i].status;
	}
	return TEI_STATUS_INTERNAL;
}

static const struct {
	int error;
	const char *text;
} words[] = {
	{0, "done"},
	{-EACCES, "the owner does not allow it"},
	{-EFAULT, "no such memory, or not inside one region of the segment"},
	{-ESTALE, "the peer restarted or revoked our access"},
	{-ECANCELED, "cancelled"},
	{-ETIMEDOUT, "deadline passed"},
	{-ENOENT, "no such region or segment"},
	{-ENOBUFS, "no room left"},
	{-EPROTO, "no engine of a known version answers there"},
	{-EHOSTUNREACH, "no such host, or no way to it"},
	{-EIO, "a backend failed"},
};

const char *te_strerror(int error)
{
	const char *text;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].error == error)
			return words[i].text;
	}
	text = strerrordesc_np(error < 0 ? -error : error);
	return text ? text : "unknown error";
}
