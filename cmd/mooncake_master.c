/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mooncake_master.c - the process that decides where objects of the pool lie
 *
 * Prints where it serves, serves, ends on SIGTERM and SIGINT. Exit codes: 0
 * ended as asked, 1 broke while running, 2 its settings are wrong.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/loop.h"
#include "cmd/stop.h"
#include "store/server/server.h"
#include "store/server/settings.h"

#define SPIN_NS (50 * TEI_NS_PER_US) /* after work, or longer: base/spin.h */
#define ABOUT                                                                 \
	"The master of a key/value pool: knows which objects are where, and " \
	"which memory the clients lend to the pool."

#define FILES_WANTED 8192u

/* Every client has two connections; shells give 1024 descriptors in all. */
static void take_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= FILES_WANTED)
		return;
	limit.rlim_cur =
		limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		LOG_WARN("mooncake_master: cannot have %llu open files",
			 (unsigned long long)limit.rlim_cur);
}

static void drop_line(int level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

static int log_level(const struct tes_server_settings *settings)
{
	if (settings->v >= 2)
		return TEI_LOG_TRACE;
	return settings->v == 1 ? TEI_LOG_DEBUG : TEI_LOG_INFO;
}

static void warn_about(const struct tei_conf *conf,
		       const struct tes_server_settings *settings)
{
	char names[1024];

	if (tei_conf_ignored(conf, names, sizeof(names)))
		LOG_WARN("mooncake_master: accepted without effect: %s", names);
	if (strstr("cxl|ssd_free_ratio_first", settings->allocation_strategy))
		LOG_WARN("mooncake_master: allocation_strategy %s: as random, "
			 "there is no such memory here",
			 settings->allocation_strategy);
	if (settings->enable_kv_events && (!*settings->kv_events_backend_id ||
					   !*settings->kv_events_bind_endpoint))
		LOG_WARN("mooncake_master: enable_kv_events: nothing is "
			 "published without kv_events_bind_endpoint and "
			 "kv_events_backend_id");
	if (settings->insecure)
		LOG_WARN("mooncake_master: insecure: every host and user is "
			 "served");
}

static void announce(const struct tes_server *server,
		     const struct tes_server_settings *settings)
{
	const char *events = tes_server_events_endpoint(server);

	/* Scripts wait for these very lines. */
	printf("Master service started on port %u\n",
	       (unsigned int)tes_server_rpc_port(server));
	printf("HTTP metrics server started on port %u\n",
	       (unsigned int)tes_server_http_port(server));
	if (tes_server_metadata_port(server))
		printf("HTTP metadata server started on port %u\n",
		       (unsigned int)tes_server_metadata_port(server));
	if (events)
		printf("kv_events publisher enabled on %s backend_id=%s\n",
		       events, settings->kv_events_backend_id);
	fflush(stdout);
}

static int serve_pool(const struct tei_conf *conf, struct tei_loop *loop)
{
	const struct tes_server_settings *settings = conf->values;
	char error[TEI_CONF_ERROR_LEN];
	struct stop stop;
	struct tes_server *server;
	int rc, code = 1;

	if (!stop_catch(&stop, loop)) {
		fprintf(stderr, "mooncake_master: cannot catch signals\n");
		goto release;
	}
	take_descriptors();
	/*
	 * Failures from here on are reported below, once, by the setting's
	 * name.
	 */
	tei_log_set_sink(drop_line, NULL);
	rc = tes_server_create(loop, settings, &server, error);
	tei_log_set_sink(NULL, NULL);
	tei_log_set_level(log_level(settings));
	if (rc < 0) {
		fprintf(stderr, "mooncake_master: %s\n", error);
		code = 2;
		goto release;
	}
	warn_about(conf, settings);
	announce(server, settings);
	tei_loop_spin(loop, SPIN_NS);
	code = tei_loop_run(loop) < 0 ? 1 : 0;
	tes_server_destroy(server);
release:
	stop_release(&stop);
	return code;
}

static int run_master(const struct tei_conf *conf)
{
	struct tei_loop *loop;
	int code, rc = tei_loop_create_bare(&loop);

	if (rc < 0) {
		fprintf(stderr, "mooncake_master: cannot start a loop: %s\n",
			strerror(-rc));
		return 1;
	}
	code = serve_pool(conf, loop);
	tei_loop_destroy(loop);
	return code;
}

/*
 * Large messages grow while they come. Mapped memory grows by moving pages;
 * else up to 4 MiB would be copied at once, while all wait.
 */
static void map_large_blocks(void)
{
#ifdef M_MMAP_THRESHOLD
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

int main(int argc, char **argv)
{
	struct tes_server_settings settings;
	struct tei_conf conf = {tes_server_rows, tes_server_n_rows, &settings};

	map_large_blocks();
	return tei_conf_program(&conf, argc, argv, ABOUT, run_master);
}
