/* SPDX-License-Identifier: Apache-2.0 */
/* nic.c - find and open domains of libfabric's providers */
#include "backends/ofi/nic.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

static const char *list_of(const char *setting)
{
	return setting ? setting : "";
}

/* ---- what is said of the choice ---- */

#define CUT "..." /* at the end of what had no room */

__attribute__((format(printf, 3, 4))) static void
append(char *to, size_t room, const char *format, ...)
{
	size_t used = strlen(to);
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(to + used, room - used, format, args);
	va_end(args);
	if (len >= 0 && (size_t)len >= room - used)
		memcpy(to + room - sizeof(CUT), CUT, sizeof(CUT));
}

/* @reason is static. */
static void leave_out(struct ofi_choice *choice, const char *name,
		      const char *reason)
{
	char *left = choice->left;

	if (choice->reason == reason)
		append(left, sizeof(choice->left), ", %s", name);
	else
		append(left, sizeof(choice->left), "%s%s: %s",
		       *left ? "; " : "", reason, name);
	choice->reason = reason;
}

/* Whether a variable has one of words[4]. */
static bool has_word(const char *variable, const char *const *words)
{
	const char *value = getenv(variable);

	for (size_t i = 0; value && i < 4; i++) {
		if (!strcasecmp(value, words[i]))
			return true;
	}
	return false;
}

static bool is_set(const char *variable)
{
	static const char *const words[] = {"1", "yes", "true", "on"};

	return has_word(variable, words);
}

static bool is_unset(const char *variable)
{
	static const char *const words[] = {"0", "no", "false", "off"};

	return has_word(variable, words);
}

/* Returns why a provider is not used, for people; NULL: it is. Static. */
static const char *refusal_of(const struct ofi_kind *kind)
{
	if (kind->why || !kind->variable)
		return kind->why;
	return is_set(kind->variable) ? NULL : kind->without;
}

static bool has_driver(const struct ofi_kind *kind)
{
	return !kind->driver || !access(kind->driver, F_OK);
}

int tei_ofi_wants(const struct ofi_config *config, bool look,
		  struct ofi_choice *choice)
{
	const char *at = list_of(config->provider);
	int wants = 0;
	size_t n;

	for (; (n = tei_word(&at)); at += n) {
		const struct ofi_kind *kind = tei_ofi_kind_find(at, n);
		const char *why = kind ? refusal_of(kind) : NULL;

		if (!kind) {
			LOG_ERROR("ofi.provider: nothing is known of \"%.*s\"",
				  (int)n, at);
			return -EINVAL;
		}
		if (!kind->why && look && !has_driver(kind))
			leave_out(choice, kind->name,
				  "the kernel has no driver of its devices");
		else if (why)
			leave_out(choice, kind->name, why);
		else
			wants = 1;
	}
	return wants;
}

void tei_ofi_nic_lock(struct ofi_nic *nic) TEI_NO_ANALYSIS
{
	if (nic->kind->software)
		tei_mutex_lock(&nic->mu);
}

void tei_ofi_nic_unlock(struct ofi_nic *nic) TEI_NO_ANALYSIS
{
	if (nic->kind->software)
		tei_mutex_unlock(&nic->mu);
}

int tei_ofi_error(ssize_t rc)
{
	if (rc >= 0)
		return 0;
	if (rc > -FI_ERRNO_OFFSET)
		return (int)rc; /* one of errno's */
	switch (-rc) {
	case FI_ENOKEY:
		return -EACCES;
	case FI_ETRUNC:
	case FI_ETOOSMALL:
		return -EMSGSIZE;
	case FI_EOVERRUN:
		return -ENOBUFS;
	default:
		return -EIO;
	}
}

/* ---- asking the library ---- */

static struct fi_info *hints_for(const struct ofi_provider *api,
				 const struct ofi_kind *kind)
{
	struct fi_info *hints = api->dupinfo(NULL);

	if (!hints)
		return NULL;
	hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE | kind->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = kind->rdm ? FI_EP_RDM : FI_EP_MSG;
	hints->domain_attr->mr_mode =
		kind->bound ? FI_MR_ALLOCATED | FI_MR_ENDPOINT
			    : FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				      FI_MR_VIRT_ADDR;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	/* By who drives, so that the provider starts no thread of its own. */
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name =
		tei_strdup(tei_ofi_kind_called(kind, api->version()));
	if (hints->fabric_attr->prov_name)
		return hints;
	api->freeinfo(hints);
	return NULL;
}

/* Whether memory of GPUs may be asked for. */
static bool may_take_gpus(const struct ofi_provider *api,
			  const struct ofi_kind *kind)
{
	return kind->gpus_without && is_unset(kind->gpus_without) &&
	       FI_VERSION_GE(api->version(), OFI_VERSION_DMABUF);
}

static int ask(const struct ofi_provider *api, const struct fi_info *hints,
	       struct fi_info **out)
{
	return api->getinfo(
		(uint32_t)tei_rdma_least(api->version(), OFI_VERSION_ASKED),
		hints, out);
}

/* Providers that do not take it have no domain for who asks for it. */
static int ask_for_gpus(const struct ofi_provider *api, struct fi_info *hints,
			struct fi_info **out)
{
	int rc;

	hints->caps |= FI_HMEM;
	hints->domain_attr->mr_mode |= FI_MR_HMEM;
	rc = ask(api, hints, out);
	hints->caps &= ~(uint64_t)FI_HMEM;
	hints->domain_attr->mr_mode &= ~FI_MR_HMEM;
	return rc;
}

static bool has_fabric(const struct fi_info *info, const char *name)
{
	const char *fabric = info->fabric_attr->name;

	return fabric && !strcmp(fabric, name);
}

/*
 * Moves domains of the fabric to the head of the list, as of several entries of
 * a device the first one is used. Versions of a library may list them in orders
 * of their own, but hosts reach each other only by the same fabric.
 */
static void put_first(struct fi_info **list, const char *fabric)
{
	struct fi_info *others = NULL, **end = &others, *at;

	while ((at = *list)) {
		if (has_fabric(at, fabric)) {
			list = &at->next;
			continue;
		}
		*list = at->next;
		at->next = NULL;
		*end = at;
		end = &at->next;
	}
	*list = others;
}

/* Asks for the domains of a provider; *out: NULL where it has none. */
static int get_domains(const struct ofi_provider *api,
		       const struct ofi_kind *kind, struct fi_info **out)
{
	struct fi_info *hints = hints_for(api, kind);
	int rc;

	*out = NULL;
	if (!hints)
		return -ENOMEM;
	rc = may_take_gpus(api, kind) ? ask_for_gpus(api, hints, out)
				      : -FI_ENODATA;
	if (rc == -FI_ENODATA)
		rc = ask(api, hints, out);
	api->freeinfo(hints);
	if (!rc && kind->fabric)
		put_first(out, kind->fabric);
	if (!rc)
		return 0;
	*out = NULL;
	LOG_DEBUG("backend ofi: provider %s: no domain: %s", kind->name,
		  api->strerror(-rc));
	return rc == -FI_ENOMEM ? -ENOMEM : 0;
}

/* ---- domains ---- */

static bool is_ip(const struct fi_info *info)
{
	return info->addr_format == FI_SOCKADDR_IN ||
	       info->addr_format == FI_SOCKADDR_IN6;
}

/* The address of an interface, port unset. False: it is none of IP. */
static bool address_of(const struct fi_info *info, struct tei_address *out)
{
	*out = (struct tei_address){.len = 0};
	if (!is_ip(info) || !info->src_addr ||
	    info->src_addrlen > sizeof(out->ss))
		return false;
	memcpy(&out->ss, info->src_addr, info->src_addrlen);
	out->len = (socklen_t)info->src_addrlen;
	tei_address_set_port(out, 0);
	return true;
}

static bool is_loopback(const struct tei_address *address)
{
	const struct sockaddr_in *in = (const void *)&address->ss;
	const struct sockaddr_in6 *in6 = (const void *)&address->ss;

	if (address->ss.ss_family == AF_INET)
		return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return address->ss.ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* Peers would have to know which of their interfaces leads to it. */
static bool is_link_local(const struct tei_address *address)
{
	const struct sockaddr_in6 *in6 = (const void *)&address->ss;

	return address->ss.ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

static const char *name_of(const struct fi_info *info)
{
	return info->domain_attr->name ? info->domain_attr->name : "";
}

/*
 * Tells whether users mean the domain by name[len]: some providers add the kind
 * of its endpoints to the name of the device.
 */
static bool is_called(const char *domain, const char *name, size_t len)
{
	return !strncmp(domain, name, len) &&
	       (!domain[len] || !strcmp(domain + len, "-rdm"));
}

static bool is_in(const char *list, const char *domain)
{
	size_t n;

	for (; (n = tei_word(&list)); list += n) {
		if (is_called(domain, list, n))
			return true;
	}
	return false;
}

/* getinfo() also answers with layers over the provider that it is asked for. */
static bool is_of_kind(const struct ofi_kind *kind, const struct fi_info *info)
{
	const char *provider = info->fabric_attr->prov_name;
	const char *name = name_of(info);

	return (!strcmp(provider, kind->name) ||
		(kind->renamed && !strcmp(provider, kind->renamed))) &&
	       *name && strlen(name) < sizeof(((struct ofi_nic *)NULL)->name) &&
	       strlen(kind->name) <= OFI_PROVIDER_LEN_MAX;
}

#define KEY_MIN 4u /* bytes; who tries keys finds shorter ones */

/* Returns what is wrong with a domain's keys, for people; NULL: nothing. */
static const char *fault_of_keys(const struct fi_domain_attr *domain)
{
	if ((domain->mr_mode & FI_MR_ENDPOINT) &&
	    (domain->mr_mode & (FI_MR_PROV_KEY | FI_MR_LOCAL)))
		return "binds keys to endpoints, and chooses them itself or "
		       "wants local memory registered, too";
	if (domain->mr_key_size > sizeof(uint64_t))
		return "has keys of more than 8 bytes";
	if (!(domain->mr_mode & FI_MR_PROV_KEY) &&
	    domain->mr_key_size < KEY_MIN)
		return "has keys of less than 4 bytes, which are guessed";
	return NULL;
}

/* Returns why a domain can carry nothing, for people; NULL: it can. Static. */
static const char *fault_of_limits(const struct fi_info *info)
{
	return !info->tx_attr->size        ? "has no room for operations"
	       : !info->tx_attr->iov_limit ? "operations have no memory"
	       : !info->ep_attr->max_msg_size
		       ? "operations have no bytes"
		       : fault_of_keys(info->domain_attr);
}

/* Returns why a domain is not used, for people; NULL: it is. Static. */
static const char *fault_of(const struct ofi_config *config,
			    const struct fi_info *info)
{
	const char *list = list_of(config->devices);
	struct tei_address address;
	bool ip = address_of(info, &address);

	if (ip && is_link_local(&address))
		return "has only a link-local address";
	/* A device that is named fails aloud when it is opened. */
	if (!tei_words_mean_all(list))
		return is_in(list, name_of(info)) ? NULL : "not in ofi.devices";
	return ip && is_loopback(&address)
		       ? "loopback, which only ofi.devices adds"
		       : fault_of_limits(info);
}

static bool is_usable(const struct ofi_config *config,
		      const struct ofi_kind *kind, const struct fi_info *info)
{
	return is_of_kind(kind, info) && !fault_of(config, info);
}

static void describe(const struct fi_info *info, struct tei_device *out)
{
	const struct fid_nic *nic = info->nic;

	*out = (struct tei_device){.numa_node = -1};
	(void)snprintf(out->name, sizeof(out->name), "%s", name_of(info));
	if (nic && nic->link_attr)
		out->speed_bps = nic->link_attr->speed;
	if (!address_of(info, &out->address))
		out->address = (struct tei_address){.len = 0};
}

/* ---- finding ---- */

#define NAMES_MAX 64

/* Names that were found, of all providers: each is used once. */
struct finding {
	const struct ofi_config *config;
	tei_device_fn *found;
	void *arg;
	struct ofi_choice *choice;
	char names[NAMES_MAX][48];
	unsigned int n;
};

static bool is_found(const struct finding *f, const char *name, size_t len)
{
	for (unsigned int i = 0; i < f->n; i++) {
		if (is_called(f->names[i], name, len))
			return true;
	}
	return false;
}

static void end_used(struct ofi_choice *choice)
{
	if (choice->kind)
		append(choice->used, sizeof(choice->used),
		       " (%s, %u operations in flight)", choice->kind->name,
		       choice->depth);
	choice->kind = NULL;
}

static void tell_used(const struct finding *f, const struct ofi_kind *kind,
		      const struct fi_info *info)
{
	struct ofi_choice *choice = f->choice;
	uint32_t depth =
		(uint32_t)tei_rdma_least(f->config->depth, info->tx_attr->size);

	if (choice->kind != kind || choice->depth != depth)
		end_used(choice);
	choice->kind = kind;
	choice->depth = depth;
	append(choice->used, sizeof(choice->used), "%s%s",
	       *choice->used ? ", " : "", name_of(info));
}

static int report_domains(struct finding *f, const struct ofi_kind *kind,
			  const struct fi_info *list)
{
	struct tei_device device;
	int rc = 0;

	for (const struct fi_info *at = list; at && !rc; at = at->next) {
		const char *name = name_of(at);

		if (!is_usable(f->config, kind, at) || f->n == NAMES_MAX ||
		    is_found(f, name, strlen(name)))
			continue;
		(void)snprintf(f->names[f->n++], sizeof(f->names[0]), "%s",
			       name);
		tell_used(f, kind, at);
		describe(at, &device);
		rc = f->found(&device, f->arg);
	}
	return rc;
}

static bool is_first(const struct ofi_kind *kind, const struct fi_info *list,
		     const struct fi_info *info)
{
	for (; list != info; list = list->next) {
		if (is_of_kind(kind, list) &&
		    !strcmp(name_of(list), name_of(info)))
			return false;
	}
	return is_of_kind(kind, info);
}

/* Tells of each domain that is not used, once. */
static void tell_left(struct finding *f, const struct ofi_kind *kind,
		      const struct fi_info *list)
{
	if (!list)
		leave_out(f->choice, kind->name, "has no domain here");
	for (const struct fi_info *at = list; at; at = at->next) {
		const char *name = name_of(at), *fault;

		if (!is_first(kind, list, at) ||
		    is_found(f, name, strlen(name)))
			continue;
		fault = fault_of(f->config, at);
		leave_out(f->choice, name, fault ? fault : "one too many");
	}
}

static int check_names(const struct finding *f)
{
	const char *at = list_of(f->config->devices);
	size_t n;

	if (tei_words_mean_all(at))
		return 0;
	for (; (n = tei_word(&at)); at += n) {
		if (is_found(f, at, n))
			continue;
		LOG_ERROR("ofi.devices: no domain of %s is called %.*s",
			  list_of(f->config->provider), (int)n, at);
		return -EINVAL;
	}
	return 0;
}

int tei_ofi_nics_find(const struct ofi_provider *api,
		      const struct ofi_config *config, tei_device_fn *found,
		      void *arg, struct ofi_choice *choice)
{
	struct finding f = {
		.config = config, .found = found, .arg = arg, .choice = choice};
	const char *at = list_of(config->provider);
	struct fi_info *list;
	int rc = 0;
	size_t n;

	for (; !rc && (n = tei_word(&at)); at += n) {
		const struct ofi_kind *kind = tei_ofi_kind_find(at, n);

		if (!kind || refusal_of(kind))
			continue;
		rc = get_domains(api, kind, &list);
		if (rc)
			break;
		rc = report_domains(&f, kind, list);
		tell_left(&f, kind, list);
		if (list)
			api->freeinfo(list);
	}
	end_used(choice);
	return rc ? rc : check_names(&f);
}

/* ---- opening ---- */

int tei_ofi_nic_failed(const struct ofi_nic *nic, const char *what, int rc)
{
	LOG_ERROR("rail %s: provider %s: %s: %s", nic->name, nic->kind->name,
		  what, nic->api->strerror(-rc));
	rc = tei_ofi_error(rc);
	if (rc == -EMFILE || rc == -ENFILE ||
	    !tei_words_mean_all(list_of(nic->config->devices)))
		return rc;
	return -ENODEV;
}

/* Takes over the entry of @name; leaves info NULL where there is none. */
static int find_info(struct ofi_nic *nic, const struct ofi_kind *kind)
{
	struct fi_info *list;
	int rc = get_domains(nic->api, kind, &list);

	/* The first one of several of a name, as the probe does. */
	for (struct fi_info *at = list; at && !nic->info && !rc;
	     at = at->next) {
		if (strcmp(name_of(at), nic->name) != 0 ||
		    !is_usable(nic->config, kind, at))
			continue;
		nic->kind = kind;
		nic->info = nic->api->dupinfo(at);
		rc = nic->info ? 0 : -ENOMEM;
	}
	if (list)
		nic->api->freeinfo(list);
	return rc;
}

static int find_by_name(struct ofi_nic *nic)
{
	const char *at = list_of(nic->config->provider);
	int rc = 0;
	size_t n;

	for (; !rc && !nic->info && (n = tei_word(&at)); at += n) {
		const struct ofi_kind *kind = tei_ofi_kind_find(at, n);

		if (kind && !refusal_of(kind))
			rc = find_info(nic, kind);
	}
	if (rc || nic->info)
		return rc;
	LOG_ERROR("rail %s: no provider has this domain any more", nic->name);
	return -ENODEV;
}

static void take_limits(struct ofi_nic *nic)
{
	struct fi_info *info = nic->info;
	uint32_t pieces = nic->kind->pieces;

	nic->depth = (uint32_t)tei_rdma_least(nic->config->depth,
					      info->tx_attr->size);
	nic->pieces = (uint32_t)tei_rdma_least(pieces ? pieces : OFI_PIECES_MAX,
					       info->tx_attr->iov_limit);
	nic->message = info->ep_attr->max_msg_size;
	if (nic->kind->receives)
		info->rx_attr->size = tei_rdma_least(nic->kind->receives,
						     info->rx_attr->size);
	/* This fabric of efa is the bare device, which forgets operations. */
	nic->waits =
		nic->kind->waits && strcmp(nic->self.fabric, "efa-direct") != 0;
}

static void describe_self(struct ofi_nic *nic)
{
	const char *fabric = nic->info->fabric_attr->name;
	struct tei_address address;
	bool ip = address_of(nic->info, &address);

	nic->self.ip = ip;
	nic->self.at_home = ip && is_loopback(&address);
	(void)snprintf(nic->self.provider, sizeof(nic->self.provider), "%s",
		       nic->kind->name);
	(void)snprintf(nic->self.fabric, sizeof(nic->self.fabric), "%s",
		       fabric ? fabric : "");
}

/* Registers memory[len] twice. 1: both are one; negative: FI_E*. */
static int register_twice(const struct ofi_nic *nic, void *memory, size_t len)
{
	struct iovec iov = {memory, len};
	const struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = FI_READ | FI_WRITE};
	struct fid_mr *first, *second;
	int rc = nic->api->mr_regattr(nic->domain, &attr, 0, &first);

	if (rc)
		return rc;
	rc = nic->api->mr_regattr(nic->domain, &attr, 0, &second);
	if (!rc) {
		rc = first == second;
		(void)nic->api->close(&second->fid);
	}
	(void)nic->api->close(&first->fid);
	return rc;
}

/*
 * Refuses a domain whose keys outlive their registration. Providers may keep
 * what was registered, to give it out again when the same memory is: then
 * peers reach memory that was taken back, whatever their rights.
 */
static int check_registering(const struct ofi_nic *nic)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory;
	int rc;

	if (!(nic->info->domain_attr->mr_mode & FI_MR_PROV_KEY))
		return 0;
	memory = mmap(NULL, page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	rc = register_twice(nic, memory, page);
	munmap(memory, page);
	if (rc < 0)
		return tei_ofi_nic_failed(nic, "register a page", rc);
	if (!rc)
		return 0;
	LOG_ERROR("rail %s: provider %s is not used: it keeps keys of memory "
		  "that was taken back: set FI_MR_CACHE_MAX_COUNT=0",
		  nic->name, nic->kind->name);
	return -EOPNOTSUPP;
}

int tei_ofi_nic_open(struct ofi_nic *nic, const struct ofi_provider *api,
		     const struct ofi_config *config, const char *name)
{
	const char *fault;
	int rc;

	*nic = (struct ofi_nic){.api = api, .config = config};
	(void)snprintf(nic->name, sizeof(nic->name), "%s", name);
	tei_mutex_init(&nic->mu);
	rc = find_by_name(nic);
	if (rc)
		goto close;
	fault = fault_of_limits(nic->info);
	if (fault) {
		LOG_ERROR("rail %s: provider %s is not used: %s", nic->name,
			  nic->kind->name, fault);
		rc = -EOPNOTSUPP;
		goto close;
	}
	nic->gpus =
		(nic->info->caps & FI_HMEM) && may_take_gpus(api, nic->kind);
	describe_self(nic);
	take_limits(nic);
	rc = api->fabric(nic->info->fabric_attr, &nic->fabric, NULL);
	if (rc) {
		rc = tei_ofi_nic_failed(nic, "open its fabric", rc);
		goto close;
	}
	rc = api->domain(nic->fabric, nic->info, &nic->domain, NULL);
	if (rc) {
		rc = tei_ofi_nic_failed(nic, "open its domain", rc);
		goto close;
	}
	rc = check_registering(nic);
	if (rc)
		goto close;
	LOG_INFO("rail %s: provider %s of libfabric %u.%u, fabric %s, %u "
		 "operations in flight of %u pieces, memory of GPUs %s",
		 nic->name, nic->kind->name, FI_MAJOR(api->version()),
		 FI_MINOR(api->version()), nic->self.fabric, nic->depth,
		 nic->pieces, nic->gpus ? "registered" : "staged");
	return 0;

close:
	tei_ofi_nic_close(nic);
	return rc;
}

void tei_ofi_nic_close(struct ofi_nic *nic)
{
	if (nic->domain)
		(void)nic->api->close(&nic->domain->fid);
	if (nic->fabric)
		(void)nic->api->close(&nic->fabric->fid);
	if (nic->info)
		nic->api->freeinfo(nic->info);
	nic->domain = NULL;
	nic->fabric = NULL;
	nic->info = NULL;
	tei_mutex_fini(&nic->mu);
}
