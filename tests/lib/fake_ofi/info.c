/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - shapes of the fake libfabric; what getinfo() says; domains */
#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/fake_ofi/private.h"

#define CAPS                                                     \
	(FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | \
	 FI_REMOTE_WRITE)
#define PLENTY (1u << 20)
#define SCOPE  (FI_LOCAL_COMM | FI_REMOTE_COMM)

const struct fake_ofi_rules fake_ofi_shapes[FAKE_OFI_SHAPES] = {
	[FAKE_OFI_TCP] =
		{
			.provider = "tcp",
			.type = FI_EP_MSG,
			.addr_format = FI_SOCKADDR_IN,
			.key_size = 8,
			.limits = {.depth = 128,
				   .pieces = 4,
				   .message = SIZE_MAX >> 1,
				   .completions = PLENTY,
				   .endpoints = PLENTY,
				   .keys = PLENTY,
				   .registered = UINT64_MAX},
			.comes_back = true,
			.early = true,
			.handle_stays = true,
			.refused_err = FI_ECANCELED,
			.refused_code = 115,
			.lost_err = FI_ECONNRESET,
			.lost_code = 104,
		},
	[FAKE_OFI_VERBS] =
		{
			.provider = "verbs",
			.type = FI_EP_MSG,
			.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				   FI_MR_ALLOCATED | FI_MR_PROV_KEY,
			.addr_format = FI_SOCKADDR_IN,
			.key_size = 4,
			.limits = {.depth = 384,
				   .pieces = 4,
				   .message = 1u << 30,
				   .completions = 32767, /* soft-RoCE */
				   .endpoints = PLENTY,
				   .keys = PLENTY,
				   .registered = UINT64_MAX},
			.comes_back = true,
			.padded = 56,
			.refused_err = FI_EIO,
			.refused_code = 10,
			.lost_err = FI_EIO,
			.lost_code = 12,
		},
	[FAKE_OFI_EFA] =
		{
			.provider = "efa",
			.type = FI_EP_RDM,
			.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
				   FI_MR_ALLOCATED | FI_MR_PROV_KEY,
			.mode = FI_CONTEXT,
			.addr_format = FI_ADDR_EFA,
			.key_size = 4,
			.limits = {.depth = 8,
				   .pieces = 1, /* and says 2 */
				   .message = 1u << 30,
				   .completions = PLENTY,
				   .endpoints = 256,
				   .keys = FAKE_OFI_KEYS_MAX,
				   .registered = 88ull << 30,
				   .both_know = true},
			.hmem = true,
			.unordered = true,
			.av_of_one = true,
			.needs_eq = true,
			.waits = true,
			.polled = true,
			.refused_err = FI_EIO,
			.refused_code = 7,
			.lost_err = FI_EIO,
			.lost_code = 13,
		},
	[FAKE_OFI_CXI] =
		{
			.provider = "cxi",
			.type = FI_EP_RDM,
			.mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED,
			.addr_format = FI_ADDR_CXI,
			.key_size = 4,
			.limits = {.depth = 256,
				   .pieces = 1,
				   .message = 1u << 30,
				   .completions = PLENTY,
				   .endpoints = 256,
				   .keys = FAKE_OFI_KEYS_MAX,
				   .registered = UINT64_MAX},
			.hmem = true,
			.unordered = true,
			.refused_err = FI_EIO,
			.refused_code = 18,
			.lost_err = FI_EIO,
			.lost_code = 26,
		},
};

const char *fake_ofi_provider(enum fake_ofi_shape shape)
{
	return fake_ofi_shapes[shape].provider;
}

/* ---- infos ---- */

static void *copy_bytes(const void *bytes, size_t len)
{
	void *copy = tei_malloc(len);

	if (copy)
		memcpy(copy, bytes, len);
	return copy;
}

static bool copy_parts(struct fi_info *to, const struct fi_info *from)
{
#define PART(field)                                                          \
	(to->field = from && from->field                                     \
			     ? copy_bytes(from->field, sizeof(*from->field)) \
			     : tei_calloc(1, sizeof(*to->field)))
	return PART(tx_attr) && PART(rx_attr) && PART(ep_attr) &&
	       PART(domain_attr) && PART(fabric_attr);
#undef PART
}

static bool copy_text(char **text)
{
	*text = *text ? tei_strdup(*text) : NULL;
	return *text;
}

static bool copy_address(void **addr, size_t len)
{
	*addr = *addr ? copy_bytes(*addr, len) : NULL;
	return *addr;
}

/* Whatever is copied so far is freed with it, also when there is no memory. */
struct fi_info *fake_ofi_copy(const struct fi_info *info)
{
	struct fi_info *copy = tei_calloc(1, sizeof(*copy));
	bool whole;

	if (!copy)
		return NULL;
	if (info) {
		*copy = *info;
		copy->next = NULL;
		copy->tx_attr = NULL;
		copy->rx_attr = NULL;
		copy->ep_attr = NULL;
		copy->domain_attr = NULL;
		copy->fabric_attr = NULL;
	}
	whole = copy_parts(copy, info);
	/* All strings are copied first: none is freed twice. */
	if (whole && info) {
		whole &= copy_text(&copy->domain_attr->name) ||
			 !info->domain_attr->name;
		whole &= copy_text(&copy->fabric_attr->name) ||
			 !info->fabric_attr->name;
		whole &= copy_text(&copy->fabric_attr->prov_name) ||
			 !info->fabric_attr->prov_name;
	}
	if (info) {
		whole &= copy_address(&copy->src_addr, info->src_addrlen) ||
			 !info->src_addr;
		whole &= copy_address(&copy->dest_addr, info->dest_addrlen) ||
			 !info->dest_addr;
	}
	if (whole)
		return copy;
	fake_ofi_drop(copy);
	return NULL;
}

void fake_ofi_drop(struct fi_info *info)
{
	if (info->domain_attr && info->fabric_attr) {
		tei_free(info->domain_attr->name);
		tei_free(info->fabric_attr->name);
		tei_free(info->fabric_attr->prov_name);
	}
	tei_free(info->tx_attr);
	tei_free(info->rx_attr);
	tei_free(info->ep_attr);
	tei_free(info->domain_attr);
	tei_free(info->fabric_attr);
	tei_free(info->src_addr);
	tei_free(info->dest_addr);
	tei_free(info);
}

static void count_info(int by)
{
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.counts.infos += (unsigned)by;
	tei_mutex_unlock(&ofi_net.mu);
}

struct fi_info *fake_ofi_dupinfo(const struct fi_info *info)
{
	struct fi_info *copy =
		fake_ofi_check(FAKE_OFI_DUPINFO) ? NULL : fake_ofi_copy(info);

	if (copy)
		count_info(1);
	return copy;
}

void fake_ofi_freeinfo(struct fi_info *info)
{
	struct fi_info *next;

	for (; info; info = next) {
		next = info->next;
		fake_ofi_drop(info);
		count_info(-1);
	}
}

/* ---- devices ---- */

/* The address of a device, in as many bytes as its kind has. */
static void describe_address(struct fi_info *info, unsigned int i)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(0x0a090101u + i)};
	struct fake_ofi_address raw = {.magic = FAKE_OFI_MAGIC, .device = i};

	if (ofi_net.rules->type == FI_EP_MSG) {
		info->src_addrlen = sizeof(in);
		info->src_addr = copy_bytes(&in, sizeof(in));
	} else {
		info->src_addrlen = info->addr_format == FI_ADDR_EFA ? 32 : 16;
		info->src_addr = tei_calloc(1, info->src_addrlen);
		memcpy(info->src_addr, &raw, sizeof(raw));
	}
	assert(info->src_addr);
}

static void describe_network(struct fake_ofi_device *device, unsigned int i)
{
	static const char *const fabrics[FAKE_OFI_SHAPES] = {
		"10.9.1.0/24", "IB-0xfe80000000000000", "efa", "cxi"};
	char name[32];

	(void)snprintf(name, sizeof(name), "fake%u%s", i,
		       ofi_net.shape == FAKE_OFI_EFA ? "-rdm" : "");
	device->info->domain_attr->name = tei_strdup(name);
	device->info->fabric_attr->name = tei_strdup(fabrics[ofi_net.shape]);
	device->info->fabric_attr->prov_name =
		tei_strdup(ofi_net.rules->provider);
	assert(device->info->domain_attr->name &&
	       device->info->fabric_attr->name &&
	       device->info->fabric_attr->prov_name);
}

void fake_ofi_device_init(unsigned int i)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;
	struct fake_ofi_device *device = &ofi_net.devices[i];
	struct fi_info *info = fake_ofi_copy(NULL);

	assert(info);
	device->info = info;
	device->limits = rules->limits;
	info->caps = CAPS | SCOPE | (rules->hmem ? FI_HMEM : 0) |
		     (ofi_net.shape == FAKE_OFI_CXI ? FI_RMA_EVENT : 0);
	info->mode = rules->mode;
	info->addr_format = rules->addr_format;
	info->tx_attr->size = info->rx_attr->size = rules->limits.depth;
	if (ofi_net.shape == FAKE_OFI_EFA)
		info->rx_attr->size = 8192;
	info->tx_attr->iov_limit =
		ofi_net.shape == FAKE_OFI_EFA ? 2 : rules->limits.pieces;
	info->tx_attr->rma_iov_limit = 1;
	info->ep_attr->type = rules->type;
	info->ep_attr->max_msg_size = rules->limits.message;
	info->domain_attr->mr_mode = rules->mr_mode;
	info->domain_attr->mr_key_size = rules->key_size;
	info->domain_attr->mr_iov_limit = 1;
	info->domain_attr->mr_cnt = rules->limits.keys;
	info->domain_attr->ep_cnt = rules->limits.endpoints;
	info->domain_attr->cq_cnt = 256;
	info->domain_attr->max_err_data =
		sizeof(((struct fake_ofi_cq *)0)->text);
	info->domain_attr->threading = FI_THREAD_SAFE;
	info->domain_attr->av_type = FI_AV_TABLE;
	describe_network(device, i);
	describe_address(info, i);
	if (ofi_net.shape == FAKE_OFI_TCP)
		return;
	device->link.speed = 100ull * 1000 * 1000 * 1000;
	device->nic.link_attr = &device->link;
	info->nic = &device->nic;
}

void fake_ofi_device_fini(unsigned int i)
{
	fake_ofi_drop(ofi_net.devices[i].info);
	if (ofi_net.devices[i].bare)
		fake_ofi_drop(ofi_net.devices[i].bare);
}

#define BARE "efa-direct"

void fake_ofi_tell_bare(unsigned int device, bool alone)
{
	struct fi_info *bare = fake_ofi_copy(ofi_net.devices[device].info);

	assert(bare && ofi_net.shape == FAKE_OFI_EFA);
	tei_free(bare->fabric_attr->name);
	bare->fabric_attr->name = tei_strdup(BARE);
	assert(bare->fabric_attr->name);
	bare->mode |= FI_CONTEXT2;
	ofi_net.devices[device].bare = bare;
	ofi_net.devices[device].alone = alone;
}

struct fi_info *fake_ofi_info(unsigned int device)
{
	return ofi_net.devices[device].info;
}

struct fake_ofi_limits *fake_ofi_limits(unsigned int device)
{
	return &ofi_net.devices[device].limits;
}

uint64_t fake_ofi_registered(unsigned int device)
{
	uint64_t registered;

	tei_mutex_lock(&ofi_net.mu);
	registered = ofi_net.devices[device].registered;
	tei_mutex_unlock(&ofi_net.mu);
	return registered;
}

void fake_ofi_rename(unsigned int device, const char *name)
{
	char **text = &ofi_net.devices[device].info->domain_attr->name;

	tei_free(*text);
	*text = name ? tei_strdup(name) : NULL;
}

/* ---- asking ---- */

/* Whether who asks can live with this one. */
static bool is_admitted(const struct fi_info *hints, const struct fi_info *info)
{
	const struct fake_ofi_rules *rules = ofi_net.rules;

	if (!hints)
		return true;
	if (hints->fabric_attr && hints->fabric_attr->prov_name &&
	    strcmp(hints->fabric_attr->prov_name, rules->provider) != 0)
		return false;
	if (hints->ep_attr && hints->ep_attr->type != FI_EP_UNSPEC &&
	    hints->ep_attr->type != rules->type)
		return false;
	if (hints->domain_attr &&
	    (rules->mr_mode & ~hints->domain_attr->mr_mode ||
	     (hints->domain_attr->name &&
	      (!info->domain_attr->name ||
	       strcmp(hints->domain_attr->name, info->domain_attr->name)))))
		return false;
	if (hints->tx_attr && hints->tx_attr->size > rules->limits.depth)
		return false;
	return !((rules->mode | info->mode) & ~hints->mode) &&
	       !(hints->caps & ~info->caps);
}

/* Memory of devices is had only by who asks for it. */
static void fit(const struct fi_info *hints, struct fi_info *info)
{
	if (!hints || !(hints->caps & FI_HMEM))
		info->caps &= ~(uint64_t)FI_HMEM;
	else if (ofi_net.rules->hmem)
		info->domain_attr->mr_mode |= FI_MR_HMEM;
	if (!hints || !(hints->caps & FI_RMA_EVENT))
		info->caps &= ~(uint64_t)FI_RMA_EVENT;
	if (hints && (hints->caps & SCOPE) == FI_REMOTE_COMM)
		info->caps &= ~(uint64_t)FI_LOCAL_COMM;
}

/* Entry @i of all that there may be, bare ones first; NULL: it is not told. */
static const struct fi_info *told_as(unsigned int i)
{
	const struct fake_ofi_device *device =
		&ofi_net.devices[i % ofi_net.n_devices];

	if (i < ofi_net.n_devices)
		return device->bare;
	return device->alone ? NULL : device->info;
}

int fake_ofi_getinfo(uint32_t version, const struct fi_info *hints,
		     struct fi_info **out)
{
	struct fi_info *list = NULL, **end = &list;
	unsigned int n = ofi_net.n_devices;
	int rc = fake_ofi_check(FAKE_OFI_GETINFO);

	if (rc)
		return rc;
	if (version > ofi_net.version)
		return -FI_ENOSYS;
	for (unsigned int i = 0; i < 2 * n; i++) {
		const struct fi_info *info = told_as(i);

		if (!info || !is_admitted(hints, info))
			continue;
		*end = fake_ofi_copy(info);
		if (!*end) {
			fake_ofi_freeinfo(list);
			return -FI_ENOMEM;
		}
		count_info(1);
		fit(hints, *end);
		(*end)->fabric_attr->api_version = version;
		end = &(*end)->next;
	}
	*out = list;
	return list ? 0 : -FI_ENODATA;
}

/* ---- domains ---- */

/* By its name, which is unique unless a test has changed that. */
struct fake_ofi_device *fake_ofi_device_of(const struct fi_info *info)
{
	const char *name = info->domain_attr->name;

	for (unsigned int i = 0; name && i < ofi_net.n_devices; i++) {
		const char *at = ofi_net.devices[i].info->domain_attr->name;

		if (at && !strcmp(at, name))
			return &ofi_net.devices[i];
	}
	return NULL;
}

int fake_ofi_domain(struct fid_fabric *base, struct fi_info *info,
		    struct fid_domain **out, void *context)
{
	struct fake_ofi_fabric *fabric = (void *)base;
	struct fake_ofi_device *device = fake_ofi_device_of(info);
	struct fake_ofi_domain *domain;
	bool bare;
	int rc = fake_ofi_check(FAKE_OFI_DOMAIN);

	if (rc)
		return rc;
	if (!device)
		return -FI_ENODEV;
	/* A domain is of the fabric that it was told with. */
	assert(!info->fabric_attr->name ||
	       !strncmp(info->fabric_attr->name, fabric->name,
			sizeof(fabric->name) - 1));
	bare = !strcmp(fabric->name, BARE);
	domain = tei_calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	domain->base.fid =
		(struct fid){.fclass = FI_CLASS_DOMAIN, .context = context};
	tei_list_init(&domain->mrs);
	domain->fabric = fabric;
	domain->device = device;
	domain->hmem = info->caps & FI_HMEM;
	domain->waits = ofi_net.rules->waits && !bare;
	domain->comes_back = ofi_net.rules->comes_back;
	tei_mutex_lock(&ofi_net.mu);
	ofi_net.counts.by_shm +=
		ofi_net.shape == FAKE_OFI_EFA && (info->caps & FI_LOCAL_COMM);
	fabric->n_children++;
	ofi_net.counts.domains++;
	tei_mutex_unlock(&ofi_net.mu);
	*out = &domain->base;
	return 0;
}

int fake_ofi_domain_close(struct fid *fid)
{
	struct fake_ofi_domain *domain = (void *)fid;

	if (domain->n_children)
		return -FI_EBUSY;
	domain->fabric->n_children--;
	ofi_net.counts.domains--;
	return 0;
}
