/* SPDX-License-Identifier: Apache-2.0 */
/* events_zmq.c - a PUB socket of ZeroMQ, which is loaded when it is wanted */
#include "store/server/events_zmq.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <zmq.h>

#include "base/mem.h"

#define LIBRARY   "libzmq.so.5"
#define LINGER_MS 200
#define INPUT_MAX 1024 /* of a subscription; others send nothing else */

/* Functions of libzmq that are used, typed by its own declarations. */
struct library {
	__typeof__(zmq_ctx_new) *ctx_new;
	__typeof__(zmq_ctx_term) *ctx_term;
	__typeof__(zmq_socket) *socket;
	__typeof__(zmq_setsockopt) *setsockopt;
	__typeof__(zmq_getsockopt) *getsockopt;
	__typeof__(zmq_bind) *bind;
	__typeof__(zmq_send) *send;
	__typeof__(zmq_close) *close;
	__typeof__(zmq_errno) *last_errno;
	__typeof__(zmq_strerror) *strerror;
};

struct tes_events_socket {
	struct library zmq;
	void *context, *socket;
	char endpoint[TES_EVENTS_ENDPOINT_LEN];
};

/* POSIX has functions fit into what dlsym() returns. */
static bool load_symbol(void *handle, const char *name, void *out)
{
	void *at = dlsym(handle, name);

	memcpy(out, &at, sizeof(at));
	return at;
}

static int load(struct library *zmq, char why[TES_EVENTS_WHY_LEN])
{
	void *h = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!h) {
		(void)snprintf(why, TES_EVENTS_WHY_LEN, "%s", dlerror());
		return -ENOPKG;
	}
	if (load_symbol(h, "zmq_ctx_new", &zmq->ctx_new) &&
	    load_symbol(h, "zmq_ctx_term", &zmq->ctx_term) &&
	    load_symbol(h, "zmq_socket", &zmq->socket) &&
	    load_symbol(h, "zmq_setsockopt", &zmq->setsockopt) &&
	    load_symbol(h, "zmq_getsockopt", &zmq->getsockopt) &&
	    load_symbol(h, "zmq_bind", &zmq->bind) &&
	    load_symbol(h, "zmq_send", &zmq->send) &&
	    load_symbol(h, "zmq_close", &zmq->close) &&
	    load_symbol(h, "zmq_errno", &zmq->last_errno) &&
	    load_symbol(h, "zmq_strerror", &zmq->strerror))
		return 0;
	(void)snprintf(why, TES_EVENTS_WHY_LEN, LIBRARY ": too old");
	return -ENOPKG;
}

static int fail_socket(const struct tes_events_socket *s, char *why)
{
	int err = s->zmq.last_errno();

	(void)snprintf(why, TES_EVENTS_WHY_LEN, "%s", s->zmq.strerror(err));
	return err > 0 ? -err : -EIO;
}

static int set_option(struct tes_events_socket *s, int option, int value)
{
	return s->zmq.setsockopt(s->socket, option, &value, sizeof(value));
}

static int accept_from(struct tes_events_socket *s, const char *address)
{
	return s->zmq.setsockopt(s->socket, ZMQ_TCP_ACCEPT_FILTER, address,
				 strlen(address));
}

/*
 * Accepts peers from this host's addresses only. Addresses that the host gets
 * later are not known to ZeroMQ: their peers are refused.
 */
static int accept_own(struct tes_events_socket *s)
{
	int rc = accept_from(s, "127.0.0.0/8");
	char address[INET_ADDRSTRLEN];
	struct ifaddrs *all;

	if (rc || getifaddrs(&all))
		return rc;
	for (struct ifaddrs *i = all; i && !rc; i = i->ifa_next) {
		const struct sockaddr_in *in = (const void *)i->ifa_addr;

		if (in && in->sin_family == AF_INET &&
		    inet_ntop(AF_INET, &in->sin_addr, address, sizeof(address)))
			rc = accept_from(s, address);
	}
	freeifaddrs(all);
	return rc;
}

static int set_up(struct tes_events_socket *s, int n_waiting, bool insecure)
{
	int64_t most = INPUT_MAX;
	int rc = set_option(s, ZMQ_SNDHWM, n_waiting);

	if (!rc)
		rc = set_option(s, ZMQ_LINGER, LINGER_MS);
	if (!rc)
		rc = s->zmq.setsockopt(s->socket, ZMQ_MAXMSGSIZE, &most,
				       sizeof(most));
	if (!rc && !insecure)
		rc = accept_own(s);
	return rc;
}

static int open_socket(struct tes_events_socket *s, const char *endpoint,
		       int n_waiting, bool insecure)
{
	size_t len = sizeof(s->endpoint);

	s->context = s->zmq.ctx_new();
	if (!s->context)
		return -1;
	s->socket = s->zmq.socket(s->context, ZMQ_PUB);
	if (!s->socket || set_up(s, n_waiting, insecure))
		return -1;
	if (s->zmq.bind(s->socket, endpoint))
		return -1;
	return s->zmq.getsockopt(s->socket, ZMQ_LAST_ENDPOINT, s->endpoint,
				 &len);
}

int tes_events_socket_open(const char *endpoint, int n_waiting, bool insecure,
			   struct tes_events_socket **out,
			   char why[TES_EVENTS_WHY_LEN])
{
	struct tes_events_socket *s = tei_calloc(1, sizeof(*s));
	int rc;

	if (!s) {
		(void)snprintf(why, TES_EVENTS_WHY_LEN, "no memory");
		return -ENOMEM;
	}
	rc = load(&s->zmq, why);
	if (!rc && open_socket(s, endpoint, n_waiting, insecure))
		rc = fail_socket(s, why);
	if (rc) {
		tes_events_socket_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void tes_events_socket_close(struct tes_events_socket *s)
{
	if (!s)
		return;
	if (s->socket)
		s->zmq.close(s->socket);
	if (s->context)
		s->zmq.ctx_term(s->context);
	tei_free(s);
}

const char *tes_events_socket_endpoint(const struct tes_events_socket *s)
{
	return s->endpoint;
}

int tes_events_socket_send(struct tes_events_socket *s,
			   const struct tes_events_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int flags = ZMQ_DONTWAIT | (i + 1 < n ? ZMQ_SNDMORE : 0);

		if (s->zmq.send(s->socket, parts[i].bytes, parts[i].len,
				flags) < 0)
			return -s->zmq.last_errno();
	}
	return 0;
}
