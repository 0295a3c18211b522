/* SPDX-License-Identifier: Apache-2.0 */
/* interface.c - which interface of this host has an address, and its network */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>

#include "base/fault.h"
#include "base/net.h"

static size_t bytes_of(const struct sockaddr *sa, uint8_t out[16])
{
	struct tei_address a = {.len = sizeof(struct sockaddr_in6)};

	if (!sa)
		return 0;
	if (sa->sa_family == AF_INET)
		a.len = sizeof(struct sockaddr_in);
	else if (sa->sa_family != AF_INET6)
		return 0;
	memcpy(&a.ss, sa, a.len);
	return tei_address_bytes(&a, out);
}

static uint8_t bits_of(const struct sockaddr *mask)
{
	uint8_t bytes[16];
	size_t i, len = bytes_of(mask, bytes);
	unsigned int bits = 0;

	for (i = 0; i < len; i++)
		bits += (unsigned int)__builtin_popcount(bytes[i]);
	return (uint8_t)bits;
}

int tei_interface_of(const struct tei_address *address, uint8_t *prefix)
{
	const struct ifaddrs *ifa;
	struct ifaddrs *all;
	uint8_t ip[16], other[16];
	size_t len = tei_address_bytes(address, ip);
	int index = 0;

	*prefix = (uint8_t)(8 * len);
	if (!len)
		return 0;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	if (getifaddrs(&all))
		return -errno;
	for (ifa = all; ifa; ifa = ifa->ifa_next) {
		if (bytes_of(ifa->ifa_addr, other) != len ||
		    memcmp(ip, other, len) != 0)
			continue;
		*prefix = bits_of(ifa->ifa_netmask);
		index = (int)if_nametoindex(ifa->ifa_name);
		if (!index && tei_is_shortage(-errno))
			index = -errno;
	}
	freeifaddrs(all);
	return index;
}

bool tei_same_network(const uint8_t *a, const uint8_t *b, unsigned int prefix)
{
	unsigned int whole = prefix / 8, rest = prefix % 8;

	if (!prefix || memcmp(a, b, whole) != 0)
		return false;
	return !rest || !((a[whole] ^ b[whole]) >> (8 - rest));
}
