/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_host.c - which names a request may be for
 *
 * A page of another site can have its own name point here (DNS rebinding), and
 * what it asks for by that name is not of another site any more: not its Origin
 * but Host tells. Addresses, localhost and the machine's name cannot be such a
 * page's; other names have to be told.
 */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/http_private.h"
#include "base/text.h"

#define NAME_ROOM 256

/* The name or address in "host", "host:port", "[v6]" or "[v6]:port". */
static bool take_name(const char *host, size_t len, char out[NAME_ROOM])
{
	const char *end = host + len;
	const char *stop;

	if (len && *host == '[') {
		host++;
		stop = memchr(host, ']', (size_t)(end - host));
	} else {
		stop = memchr(host, ':', len);
	}
	if (!stop)
		stop = end;
	if (stop > host && stop[-1] == '.')
		stop--;
	len = (size_t)(stop - host);
	if (len >= NAME_ROOM)
		return false;
	memcpy(out, host, len);
	out[len] = '\0';
	return true;
}

static bool is_address(const char *name)
{
	unsigned char address[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, name, address) == 1 ||
	       inet_pton(AF_INET6, name, address) == 1;
}

static bool is_this_machine(const char *name)
{
	char own[NAME_ROOM];

	return !gethostname(own, sizeof(own)) && !strcasecmp(name, own);
}

/* Is it one of @names, which commas and blanks separate? */
static bool is_told(const char *name, const char *names)
{
	char told[NAME_ROOM];
	size_t n;

	for (; (n = tei_word(&names)); names += n) {
		if (take_name(names, n, told) && *told &&
		    !strcasecmp(name, told))
			return true;
	}
	return false;
}

bool tei_http_host_meant(const struct tei_http_config *config, const char *host,
			 size_t len)
{
	const char *names = config->allow_host ? config->allow_host : "";
	char name[NAME_ROOM];

	if (!host || (config->insecure && !*names))
		return true;
	return take_name(host, len, name) &&
	       (!strcasecmp(name, "localhost") || is_address(name) ||
		is_told(name, names) || is_this_machine(name));
}
