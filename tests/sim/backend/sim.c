/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - the sim backend: its settings and its table of operations */
#include "tests/sim/backend/sim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/chance.h"
#include "base/clock.h"
#include "base/fault.h"

#define KEY_LEN 8

static const struct tei_setting settings[] = {
	{TEI_SETTING_AS(struct sim_config, rails, "sim.rails"),
	 .type = TEI_CONF_STRING, .def = "40g:2us",
	 .help = "rails: bit/s[:latency[:cost of a request]],..."},
	{TEI_SETTING_AS(struct sim_config, schedule, "sim.schedule"),
	 .type = TEI_CONF_STRING,
	 .help = "time:rail:what,...: up, down, silent, slow=SHARE, error=CHANCE, "
		 "refuse=CHANCE, flap=TIME"},
	{TEI_SETTING_AS(struct sim_config, seed, "sim.seed"),
	 .type = TEI_CONF_UINT, .def = "1", .help = "of its random numbers"},
	{TEI_SETTING_AS(struct sim_config, linger, "sim.linger"),
	 .type = TEI_CONF_DURATION, .def = "5ms", .unit = "ms", .max = 60000,
	 .help = "what is given up lands, and a drop is confirmed, by then"},
};

static struct tei_list rails = {&rails, &rails}; /* guarded by tei_sim_mu */
static void (*trace_fn)(const struct sim_record *record, void *arg);
static void *trace_arg;

/* ---- rails ---- */

static int sim_probe(const struct tei_search *search)
{
	struct sim_spec specs[SIM_RAILS_MAX];
	int i, rc = 0, n = tei_sim_parse(search->config, specs);

	if (n < 0)
		return n;
	for (i = 0; !rc && i < n; i++) {
		struct tei_device device = {.numa_node = -1,
					    .speed_bps = specs[i].bps};

		snprintf(device.name, sizeof(device.name), "%d", i);
		rc = search->found(&device, search->arg);
	}
	return rc;
}

static int place_of(const struct tei_rail *rail)
{
	uint64_t place;

	if (tei_parse_uint(rail->device.name, &place) || place >= SIM_RAILS_MAX)
		return -ENODEV;
	return (int)place;
}

static int open_timer(void)
{
	int fd;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		return -EMFILE;
	fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int sim_rail_open(struct tei_rail *base)
{
	const struct sim_config *config = base->config;
	struct sim_rail *rail = sim_rail(base);
	struct sim_spec specs[SIM_RAILS_MAX];
	int n = tei_sim_parse(config, specs), place = place_of(base);

	if (n < 0 || place < 0 || place >= n)
		return n < 0 ? n : -ENODEV;
	rail->base = base;
	rail->spec = specs[place];
	tei_sim_weather_init(&rail->weather);
	tei_sim_line_init(rail);
	rail->opened_at = tei_now_ns();
	rail->linger = config->linger * TEI_NS_PER_MS;
	rail->chance = config->seed * 64 + (uint64_t)place;
	rail->fd = open_timer();
	if (rail->fd < 0)
		return rail->fd;
	tei_mutex_lock(&tei_sim_mu);
	tei_list_add_tail(&rails, &rail->link);
	tei_sim_arm(rail, tei_sim_rail_next(rail));
	tei_mutex_unlock(&tei_sim_mu);
	return 0;
}

static void sim_rail_close(struct tei_rail *base)
{
	struct sim_rail *rail = sim_rail(base);

	tei_mutex_lock(&tei_sim_mu);
	tei_list_del(&rail->link);
	tei_mutex_unlock(&tei_sim_mu);
	tei_sim_line_fini(rail);
	close(rail->fd);
}

static int sim_wait_fd(struct tei_rail *rail)
{
	return sim_rail(rail)->fd;
}

void tei_sim_arm(struct sim_rail *rail, uint64_t at)
{
	struct itimerspec when = {.it_interval = {0}};

	if (tei_clock_simulated())
		return;
	if (at != SIM_NEVER) {
		at = at ? at : 1; /* 0 would disarm it */
		when.it_value.tv_sec = (time_t)(at / TEI_NS_PER_S);
		when.it_value.tv_nsec = (long)(at % TEI_NS_PER_S);
	}
	timerfd_settime(rail->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

double tei_sim_chance(struct sim_rail *rail)
{
	return (double)(tei_chance(&rail->chance) >> 11) / (double)(1ull << 53);
}

uint64_t tei_sim_next(void)
{
	uint64_t first = SIM_NEVER;

	tei_mutex_lock(&tei_sim_mu);
	tei_list_for_each (node, &rails) {
		uint64_t at = tei_sim_rail_next(
			tei_list_entry(node, struct sim_rail, link));

		if (at < first)
			first = at;
	}
	tei_mutex_unlock(&tei_sim_mu);
	return first;
}

/* ---- regions: checked by their id alone ---- */

static int sim_region_add(struct tei_rail *rail, uint64_t id, void *addr,
			  uint64_t length, uint32_t access, void *key,
			  size_t *len)
{
	struct tei_writer w;

	(void)rail;
	(void)addr;
	(void)length;
	(void)access;
	tei_writer_init(&w, key, *len);
	tei_write_u64(&w, id);
	if (w.bad)
		return -ENOBUFS;
	*len = KEY_LEN;
	return 0;
}

static void sim_region_remove(struct tei_rail *rail, uint64_t id)
{
	(void)rail;
	(void)id;
}

/* ---- trace ---- */

void tei_sim_trace(void (*fn)(const struct sim_record *record, void *arg),
		   void *arg)
{
	trace_fn = fn;
	trace_arg = arg;
}

void tei_sim_tell(const struct sim_record *record)
{
	if (trace_fn)
		trace_fn(record, trace_arg);
}

void tei_sim_note(const struct sim_rail *rail, enum sim_record_kind kind,
		  const struct tei_slice *slice, int err)
{
	const struct sim_record record = {
		.kind = kind,
		.rail = rail->base->index,
		.at = trace_fn ? tei_now_ns() : 0,
		.op = slice->op,
		.err = err,
		.endpoint = sim_half(slice->ep)->id,
		.epoch = slice->ep->epoch,
		.remote = slice->remote,
		.length = slice->length,
	};

	tei_sim_tell(&record);
}

const struct tei_backend_ops tei_backend_sim = {
	.name = "sim",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_ONE_SIDED | TEI_CAP_BY_NAME,
	.rail_size = sizeof(struct sim_rail),
	.endpoint_size = sizeof(struct sim_half),
	.slice_size = sizeof(struct sim_slice),
	.settings = settings,
	.n_settings = sizeof(settings) / sizeof(settings[0]),
	.config_size = sizeof(struct sim_config),
	.probe = sim_probe,
	.rail_open = sim_rail_open,
	.rail_close = sim_rail_close,
	.rail_describe = tei_sim_rail_describe,
	.rail_match = tei_sim_rail_match,
	.region_add = sim_region_add,
	.region_remove = sim_region_remove,
	.endpoint_open = tei_sim_endpoint_open,
	.endpoint_connect = tei_sim_endpoint_connect,
	.endpoint_close = tei_sim_endpoint_close,
	.post = tei_sim_post,
	.cancel = tei_sim_cancel,
	.flush = tei_sim_flush,
	.drop = tei_sim_drop,
	.progress = tei_sim_progress,
	.wait_fd = sim_wait_fd,
};
