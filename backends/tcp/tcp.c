/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c - the tcp backend: its settings and its table of operations
 *
 * One-sided semantics over ordinary sockets: the target's engine checks and
 * applies what the initiator asks for, and answers once it is applied.
 */
#include "backends/tcp/tcp.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#define ROW(field_, name_, type_, def_, unit_, help_, min_, max_)            \
	{                                                                    \
		.name = "tcp." name_, .type = (type_), .def = (def_),        \
		.unit = (unit_), .help = (help_), .min = (min_),             \
		.max = (max_), .offset = offsetof(struct tcp_config, field_) \
	}

static const struct tei_setting settings[] = {
	ROW(devices, "devices", TEI_CONF_STRING, NULL, NULL,
	    "interfaces or own addresses, each a rail, or all; default: one "
	    "rail, and the kernel routes",
	    0, 0),
	ROW(lanes, "lanes", TEI_CONF_UINT, "2", NULL,
	    "connections between two rails; the last is for small requests", 1,
	    TCP_LANES_MAX),
	ROW(port, "port", TEI_CONF_UINT, "0", NULL,
	    "data port; 0: the kernel chooses", 0, 65535),
	ROW(connect_timeout, "connect_timeout", TEI_CONF_DURATION, "2s", NULL,
	    "for a lane to connect and be welcomed", 10, 600000),
	ROW(sndbuf, "sndbuf", TEI_CONF_SIZE, "0", "bytes",
	    "send buffer of a lane; 0: the kernel tunes it", 0, 1 << 30),
	ROW(rcvbuf, "rcvbuf", TEI_CONF_SIZE, "0", "bytes",
	    "receive buffer of a lane; 0: the kernel tunes it", 0, 1 << 30),
	ROW(congestion, "congestion", TEI_CONF_STRING, "cubic", NULL,
	    "congestion control; the system's where refused, or if empty", 0,
	    0),
	ROW(stall_timeout, "stall_timeout", TEI_CONF_DURATION, "30s", NULL,
	    "for a peer to take the rest of a cancelled frame", 10, 600000),
	ROW(unresponsive_timeout, "deaf_timeout", TEI_CONF_DURATION, "2s", NULL,
	    "for the peer's kernel to show life while requests are unanswered",
	    1000, 600000),
	ROW(busy_poll, "busy_poll", TEI_CONF_UINT, "0", "us",
	    "the kernel asks the device that long (SO_BUSY_POLL)", 0, 1000),
	ROW(zerocopy, "zerocopy", TEI_CONF_SIZE, "0", "bytes",
	    "writes of so many are not copied for the kernel; 0: all are", 0,
	    64 << 20),
	ROW(frame, "frame", TEI_CONF_SIZE, "256k", "bytes",
	    "most payload of one frame", 4096, TCP_FRAME_MAX),
	ROW(send_chunk, "send_chunk", TEI_CONF_SIZE, "1m", "bytes",
	    "about as much is handed to the kernel at once", 4096, 64 << 20),
};

/* The target checks each access by the id alone, so there is nothing to do. */
static int tcp_region_add(struct tei_rail *rail, uint64_t id, void *addr,
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
	*len = TCP_KEY_LEN;
	return 0;
}

static void tcp_region_remove(struct tei_rail *rail, uint64_t id)
{
	(void)rail;
	(void)id;
}

extern const struct tei_backend_ops tei_backend_tcp;
const struct tei_backend_ops tei_backend_tcp = {
	.name = "tcp",
	.abi = TEI_BACKEND_ABI,
	.caps = TEI_CAP_REMOTE,
	.rail_size = sizeof(struct tcp_rail),
	.endpoint_size = sizeof(struct tcp_endpoint),
	.slice_size = sizeof(struct tcp_slice),
	.settings = settings,
	.n_settings = sizeof(settings) / sizeof(settings[0]),
	.config_size = sizeof(struct tcp_config),
	.probe = tei_tcp_probe,
	.rail_open = tei_tcp_rail_open,
	.rail_close = tei_tcp_rail_close,
	.rail_describe = tei_tcp_rail_describe,
	.rail_match = tei_tcp_rail_match,
	.region_add = tcp_region_add,
	.region_remove = tcp_region_remove,
	.endpoint_open = tei_tcp_endpoint_open,
	.endpoint_connect = tei_tcp_endpoint_connect,
	.endpoint_way = tei_tcp_endpoint_way,
	.endpoint_close = tei_tcp_endpoint_close,
	.post = tei_tcp_post,
	.cancel = tei_tcp_cancel,
	.flush = tei_tcp_flush,
	.drop = tei_tcp_drop,
	.progress = tei_tcp_progress,
	.wait_fd = tei_tcp_wait_fd,
	.doze = tei_tcp_doze,
};
