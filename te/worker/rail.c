/* SPDX-License-Identifier: Apache-2.0 */
/* rail.c - open and close the rails and fds of a worker */
#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <te/te.h>
#include <te/topo.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "te/core/config.h"
#include "te/core/engine.h"
#include "te/worker/place.h"
#include "te/worker/topology.h"
#include "te/worker/worker.h"

/* ---- NICs that the user names, as each backend calls them ---- */

/*
 * Adds a name unless it is "" or in the list: a NIC has several names. False:
 * no room.
 */
static bool add_device(char list[TEI_DEVICES_MAX], const char *name)
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

/*
 * Adds a NIC; without RDMA the interface is all there is: tcp logs what it
 * lacks.
 */
static bool add_nic(struct tei_devices *out, const struct te_topo_nic *nic)
{
	if ((!*nic->rdma || has_address(nic->interface)) &&
	    !add_device(out->interfaces, nic->interface))
		return false;
	return add_device(out->rdma, nic->rdma);
}

static int find_devices(const struct te_topo *topo, const char *at, size_t n,
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

/*
 * Finds the devices that the setting's value @list names (NULL, "": none).
 * Blocks: the machine is looked at. -EINVAL: one is not there, or the list is
 * too long; logged. -ENOMEM.
 */
static int devices_find(const char *list, struct tei_devices *out)
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
		rc = find_devices(topo, at, n, out);
	te_topo_destroy(topo);
	return rc;
}

/* Names of devices for @ops, separated by commas; NULL: all there are. */
static const char *devices_for(const struct tei_devices *devices,
			       const struct tei_backend_ops *ops)
{
	const char *list =
		tei_is_rdma(ops) ? devices->rdma : devices->interfaces;

	if (!devices->chosen || !(ops->caps & TEI_CAP_REMOTE) || !*list)
		return NULL;
	return list;
}

/* False: they are named, and none of them has it. */
static bool devices_have_rdma(const struct tei_devices *devices)
{
	return !devices->chosen || *devices->rdma;
}

/* Tells whether @ops may be used: RDMA only where one of them has it. */
static bool devices_let(const struct tei_devices *devices,
			const struct tei_backend_ops *ops)
{
	return !tei_is_rdma(ops) || devices_have_rdma(devices);
}

#define RAILS_MAX  64u
#define TAIL_SPINS 5u /* times the usual: see drive.c */

struct probe {
	struct tei_worker *w;
	const struct te_config *config;
	const struct tei_backend_ops *ops;
	uint32_t copies; /* rails of each device */
	uint32_t n_found;
};

static int watch_fd(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

static void box_free(struct tei_worker *w, struct tei_rail_box *box)
{
	w->ops->rail_fini(box);
	tei_config_fini_backend(box->rail.ops, box->config);
	tei_free(box->config);
	tei_free(box);
}

static struct tei_rail_box *box_make(struct tei_worker *w,
				     const struct tei_backend_ops *ops,
				     const struct tei_device *device,
				     uint32_t copy)
{
	struct te_engine *engine = w->engine;
	struct tei_rail_box *box;

	/* Behind it there may be one of another worker. */
	box = tei_calloc(1, sizeof(*box) + ops->rail_size + TEI_CACHE_LINE);
	if (!box)
		return NULL;
	box->config = tei_calloc(1, ops->config_size + 1);
	if (!box->config) {
		tei_free(box);
		return NULL;
	}
	tei_list_init(&box->links);
	box->worker = w;
	box->fd = -1;
	box->rail.ops = ops;
	box->rail.core = &engine->core;
	box->rail.read_fd = -1;
	box->rail.device = *device;
	box->nic = tei_topology_place(engine, &box->rail.device);
	box->rail.index = w->n_rails;
	box->rail.config = box->config;
	box->rail.bind = engine->config.bind;
	box->rail.rule = engine->rule;
	box->rail.copier = engine->copier;
	w->ops->rail_init(box);
	snprintf(box->name, sizeof(box->name), copy ? "%s/%s#%u" : "%s/%s",
		 ops->name, device->name, copy + 1);
	return box;
}

static int box_open(struct tei_worker *w, struct tei_rail_box *box,
		    const struct te_config *config)
{
	const struct tei_backend_ops *ops = box->rail.ops;
	int rc;

	rc = tei_config_make_backend(config, ops, devices_for(&w->devices, ops),
				     w->engine->config.allow_uids, box->config);
	if (rc)
		return rc;
	rc = ops->rail_open(&box->rail);
	if (rc)
		return rc;
	box->down = box->rail.down;
	tei_rail_show(box);
	box->fd = ops->wait_fd(&box->rail);
	return 0;
}

/* Opens a rail of the device; one that is gone already is no error. */
static int open_rail(const struct probe *probe, const struct tei_device *device,
		     uint32_t copy)
{
	struct tei_worker *w = probe->w;
	struct tei_rail_box *box;
	int rc;

	if (w->n_rails == RAILS_MAX)
		return 0;
	box = box_make(w, probe->ops, device, copy);
	if (!box)
		return -ENOMEM;
	rc = box_open(w, box, probe->config);
	if (rc) {
		/* With a fixed port a device is one worker's. */
		bool once = copy && rc == -EADDRINUSE;

		if (rc != -ENODEV && !once)
			LOG_ERROR("rail %s: open: %s", box->name,
				  strerror(-rc));
		box_free(w, box);
		return rc == -ENODEV || once ? 0 : rc;
	}
	box->tier = w->n_tiers;
	w->tiers[w->n_tiers] |= (uint64_t)1 << w->n_rails;
	if (box->rail.ops->key_covers)
		w->spreads |= (uint64_t)1 << w->n_rails;
	w->rails[w->n_rails++] = box;
	return 0;
}

static int found(const struct tei_device *device, void *arg)
{
	const struct probe *probe = arg;
	uint32_t copy;
	int rc = 0;

	for (copy = 0; !rc && copy < probe->copies; copy++)
		rc = open_rail(probe, device, copy);
	return rc;
}

static int count(const struct tei_device *device, void *arg)
{
	struct probe *probe = arg;

	(void)device;
	probe->n_found++;
	return 0;
}

/* Tells whether backends are opened because the settings list them. */
static bool is_named(const struct te_engine *engine)
{
	return tei_config_names_backends(engine->config.backends);
}

static bool is_protocol(const struct tei_worker *w, const char *name)
{
	return !is_named(w->engine) && !tei_config_is_tcp(&w->engine->config) &&
	       !strcmp(w->engine->config.protocol, name);
}

/* Returns how many workers the settings ask for, 0: one for each node. */
static uint32_t wanted_workers(const struct te_engine *engine)
{
	/* Without threads nobody would drive the others. */
	if (!engine->config.worker_thread || tei_clock_simulated())
		return 1;
	return (uint32_t)engine->config.workers;
}

static int search(struct probe *probe, void *values,
		  int (*each)(const struct tei_device *device, void *arg))
{
	const struct te_engine *engine = probe->w->engine;

	return probe->ops->probe(&(struct tei_search){
		.topo = engine->topo,
		.config = values,
		.module_path = engine->config.module_path,
		.named = is_named(engine) || (is_protocol(probe->w, "efa") &&
					      probe->ops->caps & TEI_CAP_EFA),
		.found = each,
		.arg = probe,
	});
}

/*
 * Devices of backends that move bytes by a processor are opened several times
 * where more workers are asked for than there are of them, as one processor
 * may not keep one busy.
 */
static int plan_copies(struct probe *probe, void *values)
{
	uint32_t wanted = wanted_workers(probe->w->engine);
	const struct tei_backend_ops *ops = probe->ops;
	int rc;

	probe->copies = 1;
	if (wanted < 2 || !(ops->caps & TEI_CAP_REMOTE) ||
	    (ops->caps & TEI_CAP_ONE_SIDED))
		return 0;
	if (ops->opens_once && ops->opens_once(values)) {
		LOG_WARN("engine: workers: each device of %s is opened once, "
			 "as its settings fix its port",
			 ops->name);
		return 0;
	}
	rc = search(probe, values, count);
	if (!rc)
		probe->copies = tei_place_copies(probe->n_found, wanted);
	return rc;
}

/* The devices of one backend, chosen by settings as each rail will have. */
static int open_backend(struct tei_worker *w, const struct te_config *config,
			const struct tei_backend_ops *ops)
{
	struct probe probe = {.w = w, .config = config, .ops = ops};
	void *values = tei_calloc(1, ops->config_size + 1);
	int rc = -ENOMEM;

	if (!values)
		return rc;
	rc = tei_config_make_backend(config, ops, devices_for(&w->devices, ops),
				     w->engine->config.allow_uids, values);
	if (!rc) {
		rc = plan_copies(&probe, values);
		if (!rc)
			rc = search(&probe, values, found);
		tei_config_fini_backend(ops, values);
	}
	tei_free(values);
	if (w->tiers[w->n_tiers])
		w->n_tiers++;
	return rc;
}

/* True: an RDMA rail has its link. */
static bool has_rdma(const struct tei_worker *w)
{
	bool has = false;

	for (uint32_t i = 0; i < w->n_rails; i++)
		has |= tei_is_rdma(w->rails[i]->rail.ops) && !w->rails[i]->down;
	return has;
}

/*
 * Tells whether the protocol of the settings lets it in, after those that are
 * open.
 */
static bool is_of_protocol(const struct tei_worker *w,
			   const struct tei_backend_ops *ops)
{
	const char *protocol = w->engine->config.protocol;

	if (!(ops->caps & TEI_CAP_REMOTE))
		return true;
	if (tei_config_is_tcp(&w->engine->config))
		return !tei_is_rdma(ops);
	if (!strcmp(protocol, "any"))
		return true;
	if (!strcmp(protocol, "efa") && tei_is_rdma(ops))
		return ops->caps & TEI_CAP_EFA;
	return tei_is_rdma(ops) || !has_rdma(w);
}

static bool is_wanted(const struct tei_worker *w,
		      const struct tei_backend_ops *ops)
{
	bool named = is_named(w->engine);

	if (named && !tei_config_lists(w->engine->config.backends, ops->name))
		return false;
	if (!devices_let(&w->devices, ops)) {
		if (named)
			LOG_ERROR(
				"backend %s: not used: none of \"%s\" has RDMA",
				ops->name, w->engine->config.devices);
		return false;
	}
	return named ||
	       (!(ops->caps & TEI_CAP_BY_NAME) && is_of_protocol(w, ops));
}

static const struct tei_rail_box *first_down(const struct tei_worker *w)
{
	uint32_t i;

	for (i = 0; i < w->n_rails && !w->rails[i]->down; i++)
		;
	return i < w->n_rails ? w->rails[i] : NULL;
}

static bool has_remote(const struct tei_worker *w)
{
	bool has = false;

	for (uint32_t i = 0; i < w->n_rails; i++)
		has |= (w->rails[i]->rail.ops->caps & TEI_CAP_REMOTE) &&
		       !w->rails[i]->down;
	return has;
}

/* RDMA was asked for, and there is none, or none yet. */
static void tell_rdma(const struct tei_worker *w)
{
	const struct tei_rail_box *down = first_down(w);
	const char *protocol = w->engine->config.protocol;
	bool asked = is_protocol(w, "rdma") || is_protocol(w, "efa");

	if (down && !has_remote(w))
		LOG_WARN("engine: no port has a link: nothing reaches other "
			 "hosts before rail %s or another has one",
			 down->name);
	else if (down && asked && !has_rdma(w))
		LOG_WARN("engine: protocol %s: no port has a link: bytes go "
			 "by tcp, and by shared memory on this host, until "
			 "rail %s or another has one",
			 protocol, down->name);
	else if (asked && !devices_have_rdma(&w->devices))
		LOG_WARN(
			"engine: none of \"%s\" has RDMA: bytes go by tcp, and "
			"by shared memory on this host",
			w->engine->config.devices);
	else if (asked && !has_rdma(w))
		LOG_WARN("engine: protocol %s: no %s device: bytes go by "
			 "tcp, and by shared memory on this host",
			 protocol,
			 is_protocol(w, "efa") ? "libfabric" : "RDMA");
}

static int open_rails(struct tei_worker *w, const struct te_config *config)
{
	const struct tei_backend_ops *const *ops;
	int rc = devices_find(w->engine->config.devices, &w->devices);

	if (rc)
		return rc;
	for (ops = w->backends; *ops; ops++) {
		assert((*ops)->abi == TEI_BACKEND_ABI);
		if (!is_wanted(w, *ops))
			continue;
		assert(w->n_tiers < TEI_TIERS_MAX);
		rc = open_backend(w, config, *ops);
		if (rc)
			return rc;
	}
	if (!w->n_rails) {
		LOG_ERROR("engine: none of the backends \"%s\" has a device",
			  w->engine->config.backends
				  ? w->engine->config.backends
				  : "");
		return -ENODEV;
	}
	tell_rdma(w);
	return 0;
}

static int open_fd(int fd)
{
	return fd < 0 ? -errno : fd;
}

static int open_fds(struct tei_worker *w)
{
	int rc;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	w->inner = open_fd(epoll_create1(EPOLL_CLOEXEC));
	if (w->inner < 0)
		return w->inner;
	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	w->outer = open_fd(epoll_create1(EPOLL_CLOEXEC));
	if (w->outer < 0)
		return w->outer;
	w->wake = open_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (w->wake < 0)
		return w->wake;
	w->kick = open_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (w->kick < 0)
		return w->kick;
	rc = watch_fd(w->inner, w->wake);
	if (!rc)
		rc = watch_fd(w->outer, w->kick);
	if (!rc)
		rc = watch_fd(w->outer, w->inner);
	atomic_store(&w->armed, !rc);
	return rc;
}

static void init_spins(struct tei_worker *w, uint64_t max)
{
	struct tei_spin spin = {.now = max, .max = max};
	struct tei_spin tail = {.now = TAIL_SPINS * max,
				.max = TAIL_SPINS * max};

	w->spin_waiting = w->spin_thread = w->spin_copying = spin;
	w->spin_tail = tail;
}

static void worker_init(struct tei_worker *w, struct te_engine *engine,
			uint32_t index)
{
	w->engine = engine;
	w->index = index;
	w->ops = engine->worker->ops;
	w->backends = engine->worker->backends;
	w->chance = engine->config.seed;
	if (!w->chance)
		memcpy(&w->chance, engine->incarnation, sizeof(w->chance));
	w->chance += index;
	w->inner = w->outer = w->wake = w->kick = -1;
	atomic_init(&w->idle, 1);
	atomic_init(&w->sleep_until, UINT64_MAX);
	tei_mutex_init(&w->mu);
	tei_list_init(&w->sleepers);
	if (!tei_clock_simulated()) /* it stands still while we are awake */
		init_spins(w, engine->config.spin_us * TEI_NS_PER_US);
	tei_mpsc_init(&w->queue);
	tei_heap_init(&w->dues);
	tei_list_init(&w->runnable);
	tei_list_init(&w->broken);
	tei_list_init(&w->dirty);
	tei_list_init(&w->ended);
}

/* Has a worker own one more rail. */
static int take_rail(struct tei_worker *w, struct tei_rail_box *box)
{
	box->worker = w;
	w->mine |= (uint64_t)1 << box->rail.index;
	w->own[w->n_own++] = box;
	return box->fd < 0 ? 0 : watch_fd(w->inner, box->fd);
}

/* Copies what all workers know alike from the first one. */
static int share(struct tei_worker *w, const struct tei_worker *first)
{
	if (w == first)
		return 0;
	w->rails = first->rails;
	w->n_rails = first->n_rails;
	w->n_tiers = first->n_tiers;
	w->spreads = first->spreads;
	memcpy(w->tiers, first->tiers, sizeof(w->tiers));
	return open_fds(w);
}

static void place_rails(struct tei_worker *first, uint32_t workers[RAILS_MAX])
{
	struct te_engine *engine = first->engine;
	uint32_t i, asked = wanted_workers(engine);
	struct tei_rail_place places[RAILS_MAX];
	struct te_topo_machine machine = {0};

	if (engine->topo)
		te_topo_machine(engine->topo, &machine);

	for (i = 0; i < first->n_rails; i++) {
		const struct tei_rail *rail = &first->rails[i]->rail;

		places[i] = (struct tei_rail_place){
			.node = rail->device.numa_node,
			.tier = first->rails[i]->tier,
			.kept = !(rail->ops->caps & TEI_CAP_REMOTE),
			.stages = machine.n_gpus &&
				  !(rail->ops->caps & TEI_CAP_DEVICE_MEM),
		};
	}
	engine->n_workers =
		tei_place_rails(places, first->n_rails, asked, TEI_WORKERS_MAX);
	for (i = 0; i < first->n_rails; i++)
		workers[i] = places[i].worker;
	if (engine->config.workers > engine->n_workers)
		LOG_WARN("engine: workers: %" PRIu64 " are asked for, %u used: "
			 "%s",
			 (uint64_t)engine->config.workers, engine->n_workers,
			 asked == 1 ? "worker_thread is off"
				    : "there are no more rails to drive");
}

/* Two for each worker: as target and initiator, on one host, or its caller. */
static bool has_processors(uint32_t n_workers)
{
	cpu_set_t set;
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	if (!sched_getaffinity(0, sizeof(set), &set)) /* else: more than fit */
		n = CPU_COUNT(&set);
	return n >= 2 * (long)n_workers;
}

/* Returns the node that all of its rails are at that are at any; else -1. */
static int node_of(const struct tei_worker *w)
{
	int node = -1;

	for (uint32_t i = 0; i < w->n_own; i++) {
		int of_rail = w->own[i]->rail.device.numa_node;

		if (of_rail >= 0 && node >= 0 && of_rail != node)
			return -1;
		node = of_rail >= 0 ? of_rail : node;
	}
	return node;
}

static int deal_out(struct tei_worker *first)
{
	struct te_engine *engine = first->engine;
	uint32_t i, workers[RAILS_MAX];
	int rc = 0;

	place_rails(first, workers);
	for (i = 0; i < engine->n_workers; i++) {
		struct tei_worker *w = &engine->worker[i];

		if (i)
			worker_init(w, engine, i);
		w->own = tei_calloc(RAILS_MAX, sizeof(*w->own));
		if (!w->own)
			rc = -ENOMEM;
		else if (!rc)
			rc = share(w, first);
	}
	for (i = 0; !rc && i < first->n_rails; i++)
		rc = take_rail(&engine->worker[workers[i]], first->rails[i]);
	/* A single one, which others compete with, may run anywhere. */
	first->node = -1;
	for (i = 0; !rc && engine->n_workers > 1 && i < engine->n_workers; i++)
		engine->worker[i].node = node_of(&engine->worker[i]);
	engine->shares = has_processors(engine->n_workers);
	return rc;
}

int tei_workers_open(struct te_engine *engine, const struct te_config *config)
{
	struct tei_worker *w = engine->worker;
	int rc;

	engine->n_workers = 1;
	worker_init(w, engine, 0);
	w->rails = tei_calloc(RAILS_MAX, sizeof(struct tei_rail_box *));
	rc = w->rails ? 0 : -ENOMEM;
	if (!rc)
		rc = open_fds(w);
	if (!rc)
		rc = open_rails(w, config);
	if (!rc)
		rc = deal_out(w);
	if (rc)
		tei_workers_close(engine);
	return rc;
}

static void close_worker(struct tei_worker *w)
{
	const int fds[] = {w->inner, w->outer, w->wake, w->kick};
	size_t i;

	tei_free(w->own);
	tei_heap_fini(&w->dues);
	tei_mutex_fini(&w->mu);
	for (i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
}

void tei_workers_close(struct te_engine *engine)
{
	struct tei_worker *w = engine->worker;

	assert(w->rails || w->n_rails == 0);
	for (; w->n_rails; w->n_rails--) {
		struct tei_rail_box *box = w->rails[w->n_rails - 1];

		box->rail.ops->rail_close(&box->rail);
		box_free(w, box);
	}
	tei_free(w->rails);
	for (uint32_t i = 0; i < engine->n_workers; i++)
		close_worker(&engine->worker[i]);
}

void tei_workers_settle(struct te_engine *engine)
{
	bool any;

	do {
		any = false;
		for (uint32_t i = 0; i < engine->n_workers; i++) {
			struct tei_worker *w = &engine->worker[i];

			any |= !tei_mpsc_empty(&w->queue) ||
			       !tei_list_empty(&w->ended);
			tei_worker_poke(w);
		}
	} while (any);
}

const char *te_rail_name(const struct te_engine *engine, uint32_t rail)
{
	if (rail >= engine->worker->n_rails)
		return "";
	return engine->worker->rails[rail]->name;
}

/* ---- a rail that loses its link, or has it again ---- */

/*
 * Losing it costs the endpoints that use it, at once: their slices go by other
 * rails as soon as the owner has confirmed that nothing of them can land. The
 * rail itself stays open and is used again when its device says so.
 */

void tei_rail_show(struct tei_rail_box *box)
{
	uint32_t state = TE_RAIL_UP;

	if (box->dead || box->down)
		state = TE_RAIL_DOWN;
	else if (box->breaker.state != TEI_BREAKER_CLOSED)
		state = TE_RAIL_PAUSED;
	atomic_store_explicit(&box->shown, state, memory_order_relaxed);
}

bool tei_rail_is_down(const struct tei_rail_box *box)
{
	return atomic_load_explicit(&box->shown, memory_order_relaxed) ==
	       TE_RAIL_DOWN;
}

void tei_rail_changed(struct tei_rail *rail, bool up)
{
	static struct tei_log_limit limit = {.per_minute = 60};
	struct tei_rail_box *box =
		TEI_CONTAINER(rail, struct tei_rail_box, rail);
	struct te_engine *engine = rail->core->engine;

	if (box->dead || box->down == !up)
		return;
	box->down = !up;
	if (tei_log_allowed(&limit))
		LOG_WARN("rail %s: link is %s", box->name, up ? "up" : "down");
	if (up) /* no pause that the dead link has earned */
		tei_breaker_reset(&box->breaker);
	tei_rail_show(box);
	if (up)
		engine->worker->ops->rail_up(box);
	else
		engine->worker->ops->rail_down(box);
}

void tei_rail_renewed(struct tei_rail *rail, const struct tei_device *device)
{
	struct te_engine *engine = rail->core->engine;

	tei_mutex_lock(&engine->mu);
	rail->device.address = device->address;
	if (device->speed_bps)
		rail->device.speed_bps = device->speed_bps;
	tei_mutex_unlock(&engine->mu);
	engine->worker->ops->rail_renewed(engine);
}

struct tei_device tei_rail_device(const struct tei_rail_box *box)
{
	struct te_engine *engine = box->rail.core->engine;
	struct tei_device device;

	tei_mutex_lock(&engine->mu);
	device = box->rail.device;
	tei_mutex_unlock(&engine->mu);
	return device;
}

const char *te_rail_state_name(uint32_t state)
{
	switch (state) {
	case TE_RAIL_UP:
		return "up";
	case TE_RAIL_DOWN:
		return "down";
	case TE_RAIL_PAUSED:
		return "paused";
	default:
		return "unknown";
	}
}

static struct te_rail_info rail_info(struct tei_rail_box *box)
{
	struct tei_device device = tei_rail_device(box);
	struct tei_rail *rail = &box->rail;

	return (struct te_rail_info){
		.name = box->name,
		.backend = rail->ops->name,
		.speed_bps = device.speed_bps,
		.numa_node = device.numa_node,
		.state =
			atomic_load_explicit(&box->shown, memory_order_relaxed),
		.sent_bytes = atomic_load_explicit(&rail->sent_bytes,
						   memory_order_relaxed),
		.received_bytes = atomic_load_explicit(&rail->received_bytes,
						       memory_order_relaxed),
		.unmatched_peers = atomic_load_explicit(&box->n_unmatched,
							memory_order_relaxed),
	};
}

int te_engine_rails(struct te_engine *engine, struct te_rail_info *out,
		    size_t *n)
{
	size_t i, room;

	if (!tei_engine_alive(engine))
		return -ESTALE;
	if (!n || (!out && *n))
		return -EINVAL;
	room = *n;
	*n = engine->worker->n_rails;
	for (i = 0; i < *n && i < room; i++)
		out[i] = rail_info(engine->worker->rails[i]);
	return 0;
}

bool te_engine_has_backend(struct te_engine *engine, const char *backend)
{
	uint32_t i;

	if (!tei_engine_alive(engine) || !backend)
		return false;
	for (i = 0; i < engine->worker->n_rails; i++)
		if (!strcmp(engine->worker->rails[i]->rail.ops->name, backend))
			return true;
	return false;
}
