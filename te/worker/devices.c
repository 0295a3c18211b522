/* SPDX-License-Identifier: Apache-2.0 */
/* devices.c - NICs that the user names, as each backend calls them */
#include "te/worker/devices.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <te/topo.h>

#include "base/log.h"
#include "base/text.h"
#include "te/common/config.h"
#include "te/worker/worker.h"

/* False: no room. "" is not added, nor what is in it: a NIC has several names. */
static bool add(char list[TEI_DEVICES_MAX], const char *name)
{
	size_t len = strlen(list);

	if (len && tei_config_lists(list, name))
		return true;
	if (len + strlen(name) + 2 > TEI_DEVICES_MAX)
		return false;
	if (*name)
		(void)snprintf(list + len, TEI_DEVICES_MAX - len, "%s%s",
			       len ? "," : "", name);
	return true;
}

/* InfiniBand need not have one. */
static bool has_address(const char *interface)
{
	struct ifaddrs *all, *at;
	bool found = false;

	if (getifaddrs(&all))
		return false;
	for (at = all; at && !found; at = at->ifa_next)
		found = at->ifa_addr && !strcmp(at->ifa_name, interface) &&
			(at->ifa_addr->sa_family == AF_INET ||
			 at->ifa_addr->sa_family == AF_INET6);
	freeifaddrs(all);
	return found;
}

/* Without RDMA the interface is all there is: tcp says what it lacks. */
static bool add_nic(struct tei_devices *out, const struct te_topo_nic *nic)
{
	if ((!*nic->rdma || has_address(nic->interface)) &&
	    !add(out->interfaces, nic->interface))
		return false;
	return add(out->rdma, nic->rdma);
}

static int find(const struct te_topo *topo, const char *at, size_t n,
		struct tei_devices *out)
{
	char name[TEI_DEVICES_MAX];
	struct te_topo_nic nic;
	uint32_t index;

	if (n < sizeof(name))
		(void)snprintf(name, sizeof(name), "%.*s", (int)n, at);
	if (n >= sizeof(name) || te_topo_find_nic(topo, name, &index) ||
	    te_topo_nic(topo, index, &nic)) {
		LOG_ERROR("devices: no such device on this host: %.*s", (int)n,
			  at);
		return -EINVAL;
	}
	if (add_nic(out, &nic))
		return 0;
	LOG_ERROR("devices: more than %d bytes of names", TEI_DEVICES_MAX);
	return -EINVAL;
}

int tei_devices_find(const char *list, struct tei_devices *out)
{
	const struct te_topo_source source = {.flags = TE_TOPO_VIRTUAL};
	const char *at = list;
	struct te_topo *topo;
	char error[256];
	size_t n;
	int rc;

	*out = (struct tei_devices){.chosen = false};
	if (!list || !tei_word(&at))
		return 0;
	out->chosen = true;
	rc = te_topo_load(&source, &topo, error, sizeof(error));
	if (rc) {
		LOG_ERROR("devices: %s", error);
		return rc;
	}
	for (; !rc && (n = tei_word(&at)); at += n)
		rc = find(topo, at, n, out);
	te_topo_destroy(topo);
	return rc;
}

const char *tei_devices_for(const struct tei_devices *devices,
			    const struct tei_backend_ops *ops)
{
	const char *list =
		tei_is_rdma(ops) ? devices->rdma : devices->interfaces;

	if (!devices->chosen || !(ops->caps & TEI_CAP_REMOTE) || !*list)
		return NULL;
	return list;
}

bool tei_devices_have_rdma(const struct tei_devices *devices)
{
	return !devices->chosen || *devices->rdma;
}

bool tei_devices_let(const struct tei_devices *devices,
		     const struct tei_backend_ops *ops)
{
	return !tei_is_rdma(ops) || tei_devices_have_rdma(devices);
}
