/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - what a directory keeps of an engine, as JSON */
#include "te/directory/entry.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"

/* ---- writing ---- */

static json_t *addresses_of(const struct tei_entry *entry)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < entry->n; i++) {
		if (json_array_append_new(list,
					  json_string(entry->address[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

int tei_entry_encode(const struct tei_entry *entry, char out[TEI_ENTRY_MAX])
{
	json_t *json;
	size_t len;

	json = json_pack("{s:s, s:i, s:o, s:s}", "ip_or_host_name", entry->host,
			 "rpc_port", (int)entry->port, "addresses",
			 addresses_of(entry), "incarnation", entry->life);
	if (!json)
		return -ENOMEM;
	len = json_dumpb(json, out, TEI_ENTRY_MAX - 1, JSON_COMPACT);
	json_decref(json);
	if (!len)
		return -ENOMEM;
	if (len > TEI_ENTRY_MAX - 1)
		return -ENOBUFS;
	out[len] = '\0';
	return (int)len;
}

void tei_entry_life(const uint8_t incarnation[TE_INCARNATION_LEN],
		    char out[TEI_ENTRY_LIFE_LEN + 1])
{
	for (size_t i = 0; i < TE_INCARNATION_LEN; i++)
		snprintf(out + 2 * i, 3, "%02x", incarnation[i]);
}

int tei_entry_key(const char *cluster, const char *name,
		  char out[TEI_ENTRY_KEY_MAX])
{
	bool some = cluster && *cluster;
	int n = snprintf(out, TEI_ENTRY_KEY_MAX, "mooncake/%s%srpc_meta/%s",
			 some ? cluster : "", some ? "/" : "", name);

	return n < 0 || n >= TEI_ENTRY_KEY_MAX ? -ENAMETOOLONG : 0;
}

/* ---- reading ---- */

/* A string of 1 .. @room - 1 printable bytes without spaces. */
static bool take_word(const json_t *value, char *out, size_t room)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);

	if (!text || !len || len >= room)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	}
	memcpy(out, text, len + 1);
	return true;
}

static bool take_addresses(const json_t *list, struct tei_entry *out)
{
	struct tei_address number;
	size_t i, n = json_array_size(list); /* 0 when it is none */

	for (i = 0; i < n && out->n < TEI_ENTRY_ADDRESSES; i++) {
		char *to = out->address[out->n];

		if (!take_word(json_array_get(list, i), to, INET6_ADDRSTRLEN) ||
		    tei_resolve_numeric(to, out->port, &number))
			return false;
		out->n++;
	}
	return true;
}

static bool take_life(const json_t *value, struct tei_entry *out)
{
	if (!value || !json_string_length(value))
		return true; /* others do not write it */
	return take_word(value, out->life, sizeof(out->life)) &&
	       strspn(out->life, "0123456789abcdef") == TEI_ENTRY_LIFE_LEN;
}

static bool take_all(const json_t *json, struct tei_entry *out)
{
	json_int_t port = json_integer_value(json_object_get(json, "rpc_port"));

	if (port < 1 || port > UINT16_MAX)
		return false;
	out->port = (uint16_t)port;
	return take_word(json_object_get(json, "ip_or_host_name"), out->host,
			 sizeof(out->host)) &&
	       take_addresses(json_object_get(json, "addresses"), out) &&
	       take_life(json_object_get(json, "incarnation"), out);
}

int tei_entry_decode(const char *text, size_t len, struct tei_entry *out)
{
	json_error_t error;
	json_t *json = json_loadb(text, len, 0, &error);
	bool right;

	if (!json)
		return json_error_code(&error) == json_error_out_of_memory
			       ? -ENOMEM
			       : -EBADMSG;
	*out = (struct tei_entry){0};
	right = take_all(json, out);
	json_decref(json);
	return right ? 0 : -EBADMSG;
}

/* ---- connecting ---- */

int tei_entry_addresses(const struct tei_entry *entry, struct tei_address *out,
			int max)
{
	int n = 0;

	for (uint32_t i = 0; i < entry->n && n < max; i++) {
		if (!tei_resolve_numeric(entry->address[i], entry->port,
					 &out[n]))
			n++;
	}
	return n ? n : tei_resolve(entry->host, entry->port, out, max);
}

static int finish_connect(int fd, uint64_t until)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	uint64_t now = tei_now_ms();
	socklen_t len = sizeof(int);
	int err = 0;

	if (now >= until || poll(&p, 1, (int)(until - now)) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	return -err;
}

/* Connects and closes at once; returns how connecting ended. */
static int knock(const struct tei_address *to, uint64_t until)
{
	int fd = socket(to->ss.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&to->ss, to->len))
		rc = -errno;
	if (rc == -EINPROGRESS)
		rc = finish_connect(fd, until);
	close(fd);
	return rc;
}

bool tei_entry_is_refused(const struct tei_entry *entry, uint64_t timeout_ms)
{
	uint64_t until = tei_now_ms() + timeout_ms;
	struct tei_address to[TEI_ENTRY_ADDRESSES];
	int i, n = tei_entry_addresses(entry, to, TEI_ENTRY_ADDRESSES);

	for (i = 0; i < n; i++) {
		if (knock(&to[i], until) != -ECONNREFUSED)
			return false;
	}
	return n > 0;
}
