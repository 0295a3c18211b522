/* SPDX-License-Identifier: Apache-2.0 */
/* port.c - find, open and look at ports of devices */
#include "backends/verbs/port.h"

#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/limits.h"
#include "backends/verbs/match.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/net.h"
#include "base/text.h"

/* Arithmetic of limits; no I/O. */

#define MTU_MIN 256u

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* @wish, at most @max, which a device gives as an int; below 0 counts as 0. */
static uint32_t clamp(uint32_t wish, int max)
{
	return max < 0 ? 0 : least(wish, (uint32_t)max);
}

static uint32_t power_below(uint32_t n)
{
	uint32_t power = 1;

	while (power <= n / 2)
		power *= 2;
	return power;
}

uint32_t tei_verbs_mtu_bytes(enum ibv_mtu mtu)
{
	if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return 0;
	return MTU_MIN << (mtu - IBV_MTU_256);
}

enum ibv_mtu tei_verbs_mtu_of(uint32_t bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && tei_verbs_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

static const char *port_fault(const struct ibv_port_attr *port)
{
	if (port->state != IBV_PORT_ACTIVE)
		return "the port is not active";
	if (!tei_verbs_mtu_bytes(port->active_mtu))
		return "the port names no MTU";
	if (!port->max_msg_sz)
		return "the port carries no messages";
	return NULL;
}

/* NULL, or why nothing can ever be done with the device. */
static const char *verbs_device_fault(const struct ibv_device_attr *device)
{
	if (device->max_qp < 1 || device->max_qp_wr < 1 || device->max_cqe < 1)
		return "the device has no queue pairs";
	if (device->max_sge < 1 || device->max_mr < 1)
		return "the device takes no memory";
	return NULL;
}

/*
 * Returns the limit of reads, which some drivers leave at 0, meaning the common
 * one.
 */
static uint32_t sge_of_reads(const struct ibv_device_attr *device, uint32_t sge)
{
	return device->max_sge_rd > 0 ? clamp(sge, device->max_sge_rd) : sge;
}

/* @mtu: of the port, in bytes. */
static uint32_t offered_mtu(uint32_t wish, uint32_t mtu)
{
	return least(tei_verbs_mtu_bytes(tei_verbs_mtu_of(wish)), mtu);
}

bool tei_verbs_offer(const struct verbs_wish *wish,
		     const struct ibv_device_attr *device,
		     const struct ibv_port_attr *port,
		     struct verbs_offer *offer, struct verbs_room *room,
		     const char **why)
{
	uint32_t mtu = tei_verbs_mtu_bytes(port->active_mtu);
	uint32_t depth = least(wish->depth, VERBS_DEPTH_MAX);

	*why = verbs_device_fault(device);
	if (!*why)
		*why = port_fault(port);
	if (*why)
		return false;
	/* Flushed, all of a lane's work comes back at once. */
	depth = clamp(clamp(depth, device->max_qp_wr), device->max_cqe);
	*offer = (struct verbs_offer){
		.lanes = clamp(least(wish->lanes, VERBS_LANES_MAX),
			       device->max_qp),
		.depth = power_below(depth),
		.mtu = offered_mtu(wish->mtu, mtu),
		.reads_out = clamp(least(wish->reads, VERBS_READS_MAX),
				   device->max_qp_init_rd_atom),
		.reads_in = clamp(least(wish->reads, VERBS_READS_MAX),
				  device->max_qp_rd_atom),
	};
	*room = (struct verbs_room){
		.inline_max = wish->inline_max,
		.sge = clamp(least(wish->sge, VERBS_SGE_MAX), device->max_sge),
		.message = port->max_msg_sz,
	};
	room->sge_read = sge_of_reads(device, room->sge);
	return true;
}

static bool is_power(uint32_t n)
{
	return n && !(n & (n - 1));
}

const char *tei_verbs_offer_fault(const struct verbs_offer *offer)
{
	if (offer->lanes < 1 || offer->lanes > VERBS_LANES_MAX)
		return "lanes out of range";
	if (!is_power(offer->depth) || offer->depth > VERBS_DEPTH_MAX)
		return "depth out of range";
	if (!is_power(offer->mtu) || offer->mtu < MTU_MIN ||
	    offer->mtu > VERBS_MTU_MAX)
		return "MTU is none";
	if (offer->reads_out > VERBS_READS_MAX ||
	    offer->reads_in > VERBS_READS_MAX)
		return "reads out of range";
	return NULL;
}

void tei_verbs_agree(const struct verbs_offer *ours,
		     const struct verbs_offer *theirs,
		     struct verbs_offer *agreed)
{
	*agreed = (struct verbs_offer){
		.lanes = least(ours->lanes, theirs->lanes),
		.depth = least(ours->depth, theirs->depth),
		.mtu = least(ours->mtu, theirs->mtu),
		.reads_out = least(ours->reads_out, theirs->reads_in),
		.reads_in = least(ours->reads_in, theirs->reads_out),
	};
}

#define GIDS_MAX 512 /* of all ports of a device */

/* ---- names ---- */

/* Tells whether "a, b/2" names port @name, "b/2", or all of its @device. */
static bool is_in(const char *list, const char *device, const char *name)
{
	size_t n;

	for (; (n = tei_word(&list)); list += n) {
		if ((n == strlen(device) && !strncmp(list, device, n)) ||
		    (n == strlen(name) && !strncmp(list, name, n)))
			return true;
	}
	return false;
}

static bool is_chosen(const struct verbs_config *config, const char *device,
		      const char *name)
{
	const char *list = config->devices;

	if (config->exclude && is_in(config->exclude, device, name))
		return false;
	return tei_words_mean_all(list) || is_in(list, device, name);
}

/*
 * Tells whether an entry @at of @n bytes is "mlx5_0" or "mlx5_0/1" of a device.
 */
static bool is_known(struct ibv_device **list, const char *at, size_t n)
{
	size_t name = 0;

	while (name < n && at[name] != '/')
		name++;
	for (; *list; list++) {
		if (strlen((*list)->name) == name &&
		    !strncmp((*list)->name, at, name))
			return true;
	}
	return false;
}

static int check_names(const struct verbs_config *config,
		       struct ibv_device **list)
{
	const char *at = config->devices;
	size_t n;

	if (tei_words_mean_all(at))
		return 0;
	for (; (n = tei_word(&at)); at += n) {
		if (!is_known(list, at, n)) {
			LOG_ERROR("verbs.devices: no device is called %.*s",
				  (int)n, at);
			return -EINVAL;
		}
	}
	return 0;
}

/* ---- what a port is ---- */

/* Bits a second by width and speed of the link; 0: unknown. Pure. */
static uint64_t verbs_port_speed(const struct ibv_port_attr *attr)
{
	static const uint16_t lanes[] = {
		[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};
	static const uint64_t mbps[] = {
		[1] = 2500,   [2] = 5000,   [4] = 10000,  [8] = 10000,
		[16] = 14000, [32] = 25000, [64] = 50000, [128] = 100000};

	if (attr->active_width >= sizeof(lanes) / sizeof(lanes[0]) ||
	    attr->active_speed >= sizeof(mbps) / sizeof(mbps[0]))
		return 0;
	return lanes[attr->active_width] * mbps[attr->active_speed] * 1000000;
}

/* A bridge's or tunnel's interface is not what the NIC sends from. */
static bool is_overlay(const char *interface)
{
	static const char *const kinds[] = {"bridge", "vxlan", "geneve"};
	char path[64 + IF_NAMESIZE], line[64], kind[32];
	bool overlay = false;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/sys/class/net/%s/uevent",
		       interface);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "DEVTYPE=%31s", kind) != 1)
			continue;
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			overlay |= !strcmp(kind, kinds[i]);
	}
	(void)fclose(file);
	return overlay;
}

static struct verbs_gid gid_of(const struct ibv_gid_entry *entry)
{
	struct verbs_gid gid = {.gid = entry->gid,
				.index = entry->gid_index,
				.type = entry->gid_type};
	char interface[IF_NAMESIZE];

	if (entry->ndev_ifindex &&
	    if_indextoname(entry->ndev_ifindex, interface)) {
		gid.network = true;
		gid.overlay = is_overlay(interface);
	}
	return gid;
}

static bool is_automatic(const char *gid_index)
{
	return !gid_index || !*gid_index || !strcmp(gid_index, "auto") ||
	       !strcmp(gid_index, "-1");
}

/* -1: the best. What is no number was refused by tei_verbs_ports_find(). */
static int wanted_gid(const struct verbs_config *config)
{
	const char *text = config->gid_index;

	if (is_automatic(text))
		return -1;
	return (int)strtoul(text, NULL, 10);
}

static bool is_gid_index(const char *text)
{
	size_t n = text ? strlen(text) : 0;

	return is_automatic(text) ||
	       (n <= 5 && strspn(text, "0123456789") == n);
}

/*
 * Tells whether it is a GID of InfiniBand on an Ethernet port: some drivers
 * have one there that is made of the MAC and no address that routes.
 */
static bool is_foreign(const struct verbs_port *port,
		       const struct ibv_gid_entry *entry)
{
	return port->link == VERBS_LINK_ETHERNET &&
	       entry->gid_type == IBV_GID_TYPE_IB;
}

static int choose_gid(const struct verbs_port *port, struct verbs_gid *out)
{
	int wanted = wanted_gid(port->config);
	struct ibv_gid_entry *entries;
	struct verbs_gid *gids;
	size_t n = 0;
	ssize_t all;
	int place = -ENOMEM;

	entries = tei_calloc(GIDS_MAX, sizeof(*entries));
	gids = tei_calloc(GIDS_MAX, sizeof(*gids));
	if (!entries || !gids)
		goto out;
	all = port->api->query_gid_table(port->context, entries, GIDS_MAX);
	place = (int)all;
	if (all < 0)
		goto out;
	for (ssize_t i = 0; i < all; i++) {
		if (entries[i].port_num == port->number &&
		    (wanted >= 0 || !is_foreign(port, &entries[i])))
			gids[n++] = gid_of(&entries[i]);
	}
	place = tei_verbs_gid_choose(gids, n, wanted);
	if (place >= 0)
		*out = gids[place];
out:
	tei_free(gids);
	tei_free(entries);
	return place < 0 ? place : 0;
}

static struct verbs_wish wish_of(const struct verbs_config *config)
{
	return (struct verbs_wish){
		.lanes = (uint32_t)config->lanes,
		.depth = (uint32_t)config->depth,
		.mtu = (uint32_t)config->mtu,
		.reads = (uint32_t)config->reads,
		.inline_max = (uint32_t)config->inline_max,
		.sge = (uint32_t)config->pieces,
	};
}

/* NULL, or why it cannot be used; *later: it may come to be. */
static const char *examine(struct verbs_port *port, bool *later)
{
	const char *why = verbs_device_fault(&port->device);
	struct verbs_wish wish = wish_of(port->config);
	int rc;

	*later = false;
	if (why)
		return why;
	if (port->api->query_port(port->context, port->number, &port->attr))
		return "the port does not answer";
	*later = true;
	port->link = port->attr.link_layer == IBV_LINK_LAYER_ETHERNET
			     ? VERBS_LINK_ETHERNET
			     : VERBS_LINK_IB;
	if (!tei_verbs_offer(&wish, &port->device, &port->attr, &port->offer,
			     &port->room, &why))
		return why;
	rc = choose_gid(port, &port->gid);
	if (!rc)
		return NULL;
	*later = rc == -ENOENT;
	if (!*later)
		return "its GIDs cannot be read";
	return wanted_gid(port->config) < 0
		       ? "no GID of RoCE version 2 or InfiniBand"
		       : "no GID of the index that is set";
}

int tei_verbs_port_look(struct verbs_port *port)
{
	struct verbs_port fresh = *port;
	bool later;

	port->why = examine(&fresh, &later);
	if (port->why) {
		LOG_INFO("device %s: %s", port->name, port->why);
		return -ENETDOWN;
	}
	/* Not the whole: other threads read what never changes. */
	port->attr = fresh.attr;
	port->link = fresh.link;
	port->gid = fresh.gid;
	port->offer = fresh.offer;
	port->room = fresh.room;
	return 0;
}

int tei_verbs_port_measure(struct verbs_port *port)
{
	struct ibv_port_attr attr;
	uint32_t mtu;
	int rc;

	rc = tei_verbs_error(
		port->api->query_port(port->context, port->number, &attr));
	if (rc) {
		LOG_WARN("device %s: the port cannot be asked for its MTU: %s",
			 port->name, strerror(-rc));
		return rc;
	}
	mtu = tei_verbs_mtu_bytes(attr.active_mtu);
	if (attr.state != IBV_PORT_ACTIVE || !mtu)
		return 0; /* an event is on its way */
	port->attr.active_mtu = attr.active_mtu;
	port->offer.mtu = offered_mtu((uint32_t)port->config->mtu, mtu);
	return 0;
}

/* ---- finding ---- */

void tei_verbs_port_report(const struct verbs_port *port,
			   struct tei_device *out)
{
	const uint8_t *gid = port->gid.gid.raw;
	bool v4 = tei_verbs_gid_is_v4(&port->gid.gid);

	*out = (struct tei_device){.numa_node = -1};
	(void)snprintf(out->name, sizeof(out->name), "%s", port->name);
	if (port->why)
		return;
	out->speed_bps = verbs_port_speed(&port->attr);
	if (port->link == VERBS_LINK_ETHERNET)
		(void)tei_address_from_bytes(v4 ? gid + 12 : gid, v4 ? 4 : 16,
					     0, &out->address);
}

static void set_name(struct verbs_port *port, const struct ibv_device *device,
		     uint8_t number)
{
	port->number = number;
	(void)snprintf(port->name, sizeof(port->name), "%.40s/%u", device->name,
		       number);
}

static int report_ports(struct verbs_port *port,
			const struct ibv_device *device, tei_device_fn *found,
			void *arg)
{
	const struct verbs_config *config = port->config;
	int rc = 0;

	for (uint8_t i = 1; i && i <= port->device.phys_port_cnt && !rc; i++) {
		struct tei_device report;
		bool later;

		set_name(port, device, i);
		if ((config->port && config->port != i) ||
		    !is_chosen(config, device->name, port->name))
			continue;
		port->why = examine(port, &later);
		if (port->why && !later) {
			LOG_INFO("device %s: left out: %s", port->name,
				 port->why);
			continue;
		}
		tei_verbs_port_report(port, &report);
		rc = found(&report, arg);
	}
	return rc;
}

/* The device alone; @port has its provider and settings. */
static int open_device(struct verbs_port *port, struct ibv_device *device)
{
	int rc;

	port->context = port->api->open_device(device);
	if (!port->context) {
		rc = tei_verbs_error(-1);
		LOG_WARN("device %s: cannot be opened: %s", device->name,
			 strerror(-rc));
		return rc;
	}
	rc = tei_verbs_error(
		port->api->query_device(port->context, &port->device));
	if (!rc)
		return 0;
	LOG_WARN("device %s: cannot be queried: %s", device->name,
		 strerror(-rc));
	tei_verbs_port_close(port);
	return rc;
}

void tei_verbs_port_close(struct verbs_port *port)
{
	if (port->context)
		port->api->close_device(port->context);
	port->context = NULL;
}

/*
 * iWARP joins its queue pairs by connections of its own. The kernel's way to an
 * eRDMA device reports that, unless its driver is told otherwise.
 */
static void say_iwarp(const struct verbs_config *config,
		      const struct ibv_device *device)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (device->transport_type == IBV_TRANSPORT_IWARP &&
	    is_chosen(config, device->name, device->name) &&
	    tei_log_allowed(&limit))
		LOG_WARN("device %s: left out: it reports iWARP, not RoCE; an "
			 "eRDMA device reports RoCE when its driver is loaded "
			 "with compat_mode=Y (modprobe erdma compat_mode=Y)",
			 device->name);
}

int tei_verbs_ports_find(const struct verbs_provider *api,
			 const struct verbs_config *config,
			 tei_device_fn *found, void *arg)
{
	const char *fault = tei_verbs_map_fault(config->peers);
	struct ibv_device *none = NULL, **list;
	int n = 0, rc;

	if (fault) {
		LOG_ERROR("verbs.peers: %s", fault);
		return -EINVAL;
	}
	if (!is_gid_index(config->gid_index)) {
		LOG_ERROR("verbs.gid_index: %s is neither a number nor auto",
			  config->gid_index);
		return -EINVAL;
	}
	list = api ? api->get_device_list(&n) : NULL;
	if (!list)
		return check_names(config, &none);
	rc = check_names(config, list);
	for (int i = 0; i < n && !rc; i++) {
		struct verbs_port port = {.api = api, .config = config};

		if (list[i]->transport_type != IBV_TRANSPORT_IB) {
			say_iwarp(config, list[i]);
			continue;
		}
		if (open_device(&port, list[i]))
			continue;
		rc = report_ports(&port, list[i], found, arg);
		tei_verbs_port_close(&port);
	}
	api->free_device_list(list);
	return rc;
}

/* ---- opening ---- */

static int open_named(struct verbs_port *port, struct ibv_device *device,
		      const char *name)
{
	int rc = open_device(port, device);
	bool later;

	if (rc)
		return rc;
	(void)snprintf(port->name, sizeof(port->name), "%s", name);
	port->why = examine(port, &later);
	if (!port->why)
		return 0;
	if (later) {
		LOG_INFO("device %s: not usable yet: %s", name, port->why);
		return 0;
	}
	LOG_WARN("device %s: %s", name, port->why);
	tei_verbs_port_close(port);
	return -ENODEV;
}

int tei_verbs_port_open(struct verbs_port *port,
			const struct verbs_provider *api,
			const struct verbs_config *config, const char *name)
{
	const char *slash = strrchr(name, '/');
	struct ibv_device **list;
	unsigned int number;
	int n = 0, rc = -ENODEV;

	*port = (struct verbs_port){.api = api, .config = config};
	if (!slash || sscanf(slash, "/%3u", &number) != 1 || number > 255)
		return -ENODEV;
	list = api->get_device_list(&n);
	if (!list)
		return -ENODEV;
	port->number = (uint8_t)number;
	for (int i = 0; i < n; i++) {
		if (strlen(list[i]->name) != (size_t)(slash - name) ||
		    strncmp(list[i]->name, name, (size_t)(slash - name)) != 0)
			continue;
		rc = open_named(port, list[i], name);
		break;
	}
	api->free_device_list(list);
	return rc;
}
