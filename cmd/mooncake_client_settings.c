/* SPDX-License-Identifier: Apache-2.0 */
/* mooncake_client_settings.c - the rows of mooncake_client in the registry */
#include "cmd/mooncake_client.h"

#include <te/store.h>

#define TIMEOUT_MAX_MS 86400000.0 /* of a store's calls: a day */

#define ROW(field) TEI_SETTING(struct client_settings, field)

/* clang-format off */
const struct tei_setting client_rows[] = {
	{ ROW(config_path), .type = TEI_CONF_STRING, .group = "file",
	  .file = tei_conf_file,
	  .help = "YAML or JSON file of settings, named as here" },

	{ ROW(host), .group = "network", .type = TEI_CONF_STRING, .def = "0.0.0.0",
	  .help = "name by which others reach this host; 0.0.0.0: 127.0.0.1, so that "
		  "only processes here do" },
	{ ROW(port), .type = TEI_CONF_UINT, .def = "50052", .max = 65535,
	  .help = "where dummy clients ask for their socket; 0: any free one" },
	{ ROW(engine_port), .type = TEI_CONF_UINT, .def = "0", .max = 65535,
	  .help = "port for other clients; 0: any free one" },
	{ ROW(master_server_address), .type = TEI_CONF_STRING,
	  .def = "127.0.0.1:50051", .help = "the master, host:port" },
	{ ROW(metadata_server), .type = TEI_CONF_STRING,
	  .def = "http://127.0.0.1:8080/metadata",
	  .help = "directory to publish the name in; P2PHANDSHAKE: none" },
	{ ROW(tenant_id), .type = TEI_CONF_STRING, .def = "default",
	  .help = "whose keys its dummy clients mean" },
	{ ROW(protocol), .type = TEI_CONF_CHOICE, .def = "tcp",
	  .choices = "tcp|rdma",
	  .help = "how bytes move; rdma without such a device: as tcp" },
	{ ROW(device_names), .alias = "device_name", .type = TEI_CONF_STRING, .def = "",
	  .help = "with rdma: those to use, a list with commas" },
	{ ROW(force_tcp), .env = "MC_FORCE_TCP", .type = TEI_CONF_BOOL, .def = "0",
	  .help = "tcp, whatever the protocol is" },
	{ ROW(socket_path), .env = "MOONCAKE_CLIENT_SOCKET",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "unix socket for dummy clients; empty: client-PORT.sock in "
		  "the user's runtime directory" },
	{ ROW(socket_group), .type = TEI_CONF_STRING, .def = "",
	  .help = "members of this group are served too; empty: only this user" },
	{ ROW(threads), .expert = true,
	  .type = TEI_CONF_UINT, .def = "1", .min = 1, .max = 64,
	  .help = "calls of dummy clients at a time; 1: as many as there are "
		  "CPUs, 4 at least" },
	{ ROW(dummy_memory_max), .expert = true,
	  .type = TEI_CONF_SIZE, .def = "1 TB",
	  .help = "memory of all dummy clients together" },
	{ ROW(dummy_memory_each_max), .expert = true,
	  .type = TEI_CONF_SIZE, .def = "256 GB",
	  .help = "memory of one dummy client, touched or not" },
	{ ROW(enable_http_server), .type = TEI_CONF_BOOL, .def = "0",
	  .help = "serve /health, /metrics and /metrics/summary" },
	{ ROW(http_port), .type = TEI_CONF_UINT, .def = "9300", .max = 65535,
	  .help = "where; 0: any free port" },
	{ ROW(call_timeout), .expert = true,
	  .type = TEI_CONF_DURATION, .def = "1", .unit = "s",
	  .min = 1, .max = TIMEOUT_MAX_MS,
	  .help = "of one call to the master" },
	{ ROW(replica_timeout), .expert = true,
	  .type = TEI_CONF_DURATION, .def = "1",
	  .unit = "s", .min = 1, .max = TIMEOUT_MAX_MS,
	  .help = "of reading from one owner, be it one value or a batch" },
	{ ROW(insecure), .env = "MOONCAKE_INSECURE", .type = TEI_CONF_BOOL,
	  .def = "0", .help = "serve other hosts too, without any key" },
	{ ROW(allow_host), .env = "MOONCAKE_ALLOW_HOST",
	  .type = TEI_CONF_STRING, .def = "",
	  .help = "HTTP requests may be for these names, too (a,b)" },

	{ ROW(global_segment_size), .group = "memory", .type = TEI_CONF_SIZE, .def = "4 GB",
	  .min = 1, .max = 1099511627776.0, .help = "memory lent to the pool" },

	{ ROW(local_buffer_size), .type = TEI_CONF_SIZE, .def = "0",
	  .max = 1099511627776.0,
	  .help = "memory for values that dummy clients get without giving any; "
		  "0: they take theirs" },
	{ ROW(location_cache), .expert = true,
	  .env = "TE_LOCATION_CACHE",
	  .type = TEI_CONF_UINT, .def = "0", .max = TE_STORE_LOCATIONS_MAX,
	  .help = "objects whose place is remembered while its lease lasts, so "
		  "that reading them again asks the master nothing; 0: none" },
	{ ROW(local_hot_cache_size), .env = "MC_STORE_LOCAL_HOT_CACHE_SIZE",
	  .type = TEI_CONF_SIZE, .def = "0", .max = 1099511627776.0,
	  .help = "memory for what is read often from other owners; 0: none" },
	{ ROW(local_hot_block_size), .expert = true,
	  .env = "MC_STORE_LOCAL_HOT_BLOCK_SIZE",
	  .type = TEI_CONF_SIZE, .def = "16 MB", .min = 1, .max = 1099511627776.0,
	  .help = "larger values are not kept there" },
	{ ROW(local_hot_admission_threshold), .expert = true,
	  .env = "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD",
	  .type = TEI_CONF_UINT, .def = "2", .min = 1, .max = 255,
	  .help = "how often a key is to be asked for before it is kept there" },

	{ ROW(drain_timeout), .type = TEI_CONF_DURATION, .def = "10",
	  .unit = "s", .max = 600000,
	  .help = "when told to end: for how long, at most, what is here is moved "
		  "to others; 0: not at all" },

	{ ROW(v), .group = "observation", .type = TEI_CONF_UINT, .def = "0", .max = 9,
	  .help = "verbosity: 0 a handful of lines, 1 a line per object" },

	{ ROW(enable_offload), .type = TEI_CONF_BOOL, .def = "0",
	  .hidden = true, .help = "accepted, no meaning here" },
	{ ROW(start_offload_rpc_server), .type = TEI_CONF_BOOL, .def = "1",
	  .hidden = true, .help = "accepted, no meaning here" },
	TEI_GLOG_ROWS(struct client_settings),
};
/* clang-format on */
const size_t client_n_rows = sizeof(client_rows) / sizeof(client_rows[0]);
