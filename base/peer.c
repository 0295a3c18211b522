/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.c - protected mode: whom a server serves while there are no keys
 *
 * The two ends of a connection within a host are two sockets with the same
 * addresses, turned round. The kernel finds the other one by its addresses and
 * tells its user (sock_diag(7)); where it does not, as in some sandboxes, it is
 * looked for in /proc/net/tcp.
 *
 * A kernel whose sock_diag for tcp is a module that is not loaded runs modprobe
 * for each question, and who asks waits for it. So the first question is asked
 * before anybody is served, about a socket of our own: it loads the module, or
 * shows that there is none, and then no second one is asked.
 *
 * A socket that its process has closed has no user any more and reads as
 * root's, so only one with an inode counts. The addresses of a connection that
 * was reset may belong to another one already: therefore our end is looked at
 * last, and as long as it is connected, so was the other one.
 */
#include "base/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/net.h"

#define ONE_FEWER    (UINT32_MAX - 1)
#define LOOPBACK     1 /* number of that interface, in every namespace */
#define LINE_MAX_LEN 512
/*
 * Limits of the CPU time that looks through all sockets take, since peers can
 * cause them: SCAN_MAX_NS each, and 1 / SCAN_TIMES of the time all together.
 * Looks save what they do not use of their share for later ones, up to
 * SCAN_SAVED_NS.
 */
#define SCAN_MAX_NS   (20 * TEI_NS_PER_MS)
#define SCAN_TIMES    5
#define SCAN_SAVED_NS (SCAN_TIMES * TEI_NS_PER_S / 5)
#define SCAN_LINES    64 /* between two looks at the clock */
#define SLOW_FIRST_MS 100

/* ---- lists of users ---- */

/* Read digits at *at and go behind them. */
static int parse_uid(const char **at, uint32_t *out)
{
	const char *p = *at;
	uint64_t uid = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++) {
		uid = uid * 10 + (uint64_t)(*p - '0');
		if (uid > ONE_FEWER)
			return -EINVAL;
	}
	*at = p;
	*out = (uint32_t)uid;
	return 0;
}

static int parse_range(const char **at, struct tei_uid_range *out)
{
	int rc = parse_uid(at, &out->first);

	out->last = out->first;
	if (!rc && **at == '-') {
		++*at;
		rc = parse_uid(at, &out->last);
	}
	return rc || out->last < out->first ? -EINVAL : 0;
}

int tei_uids_parse(const char *list, struct tei_uids *out)
{
	struct tei_uids uids = {.n = 0};

	if (list && !strcmp(list, "any")) {
		uids.ranges[uids.n++].last = TEI_PEER_NO_UID;
		list = NULL;
	}
	while (list && *list) {
		list += strspn(list, " ");
		if (uids.n == TEI_UIDS_MAX ||
		    parse_range(&list, &uids.ranges[uids.n]))
			return -EINVAL;
		uids.n++;
		list += strspn(list, " ");
		if (*list && *list++ != ',')
			return -EINVAL;
	}
	*out = uids;
	return 0;
}

bool tei_uids_has(const struct tei_uids *uids, uint32_t uid)
{
	for (uint32_t i = 0; i < uids->n; i++)
		if (uid >= uids->ranges[i].first && uid <= uids->ranges[i].last)
			return true;
	return false;
}

/* ---- the user at the other end of a connection ---- */

/* End of a connection, in one form: IPv4 is never v4-mapped. */
struct end {
	uint8_t ip[16];
	size_t len; /* 4 or 16 */
	uint16_t port;
	uint32_t scope; /* interface of a link-local address, else 0 */
};

/* The owner of a socket, as the system names it. */
struct socket_owner {
	uint32_t uid;
	uint64_t inode; /* 0: no process holds it */
	int state;      /* TCP_ESTABLISHED, ... */
};

static int end_of(const struct tei_address *a, struct end *out)
{
	const struct sockaddr_in6 *in6 = (const void *)&a->ss;

	memset(out, 0, sizeof(*out));
	out->len = tei_address_bytes(a, out->ip);
	if (!out->len)
		return -EOPNOTSUPP;
	out->port = tei_address_port(a);
	if (out->len == 16 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		out->scope = in6->sin6_scope_id;
	return 0;
}

static bool same_end(const struct end *a, const struct end *b)
{
	return a->len == b->len && a->port == b->port &&
	       !memcmp(a->ip, b->ip, a->len);
}

/* The end in a message of the kernel. */
static struct end end_from(uint8_t family, const uint32_t ip[4], uint16_t port)
{
	struct tei_address a;
	struct end e = {.len = 0};
	uint8_t bytes[16];

	memcpy(bytes, ip, sizeof(bytes));
	if (tei_address_from_bytes(bytes, family == AF_INET6 ? 16 : 4,
				   ntohs(port), &a))
		(void)end_of(&a, &e);
	return e;
}

struct diag_request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
};

union diag_reply {
	struct nlmsghdr head;
	char bytes[1024];
};

static void diag_fill(struct diag_request *r, const struct end *src,
		      const struct end *dst, uint32_t interface)
{
	*r = (struct diag_request){
		.head = {.nlmsg_len = sizeof(*r),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST},
		.body = {.sdiag_family = src->len == 4 ? AF_INET : AF_INET6,
			 .sdiag_protocol = IPPROTO_TCP,
			 .idiag_states = UINT32_MAX,
			 .id = {.idiag_sport = htons(src->port),
				.idiag_dport = htons(dst->port),
				.idiag_if = interface,
				.idiag_cookie = {INET_DIAG_NOCOOKIE,
						 INET_DIAG_NOCOOKIE}}},
	};
	memcpy(r->body.id.idiag_src, src->ip, src->len);
	memcpy(r->body.id.idiag_dst, dst->ip, dst->len);
}

/* Take the answer apart; -EBADMSG: it is about something else. */
static int diag_read(const union diag_reply *reply, size_t len,
		     const struct end *src, const struct end *dst,
		     struct socket_owner *out)
{
	const struct inet_diag_msg *m = NLMSG_DATA(&reply->head);
	const struct nlmsgerr *error = NLMSG_DATA(&reply->head);
	struct end from, to;

	if (!NLMSG_OK(&reply->head, len))
		return -EBADMSG;
	if (reply->head.nlmsg_type == NLMSG_ERROR &&
	    reply->head.nlmsg_len >= NLMSG_LENGTH(sizeof(*error)))
		return error->error < 0 ? error->error : -EBADMSG;
	if (reply->head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    reply->head.nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EBADMSG;
	from = end_from(m->idiag_family, m->id.idiag_src, m->id.idiag_sport);
	to = end_from(m->idiag_family, m->id.idiag_dst, m->id.idiag_dport);
	if (!same_end(&from, src) || !same_end(&to, dst))
		return -ENOENT; /* a listening socket, say */
	*out = (struct socket_owner){.uid = m->idiag_uid,
				     .inode = m->idiag_inode,
				     .state = m->idiag_state};
	return 0;
}

static int diag_ask(int diag, const struct end *src, const struct end *dst,
		    uint32_t interface, struct socket_owner *out)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct sockaddr_nl from = {.nl_pid = UINT32_MAX};
	socklen_t from_len = sizeof(from);
	union diag_reply reply;
	struct diag_request r;
	ssize_t n;

	diag_fill(&r, src, dst, interface);
	if (sendto(diag, &r, sizeof(r), MSG_NOSIGNAL | MSG_DONTWAIT,
		   (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	/* The kernel has answered before sendto() returned. */
	n = recvfrom(diag, reply.bytes, sizeof(reply.bytes), MSG_DONTWAIT,
		     (struct sockaddr *)&from, &from_len);
	if (n < 0)
		return -errno;
	if (from.nl_pid)
		return -EBADMSG;
	return diag_read(&reply, (size_t)n, src, dst, out);
}

/* A socket that is bound to an interface is only found with its number. */
static int diag_find(int diag, const struct end *src, const struct end *dst,
		     struct socket_owner *out)
{
	int rc = diag_ask(diag, src, dst, src->scope, out);

	if (rc == -ENOENT && src->scope != LOOPBACK)
		rc = diag_ask(diag, src, dst, LOOPBACK, out);
	return rc;
}

static int diag_open(void)
{
	int diag = -1;

	if (tei_fault_check(TEI_FAULT_SOCKET))
		errno = EMFILE;
	else
		diag = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
			      NETLINK_SOCK_DIAG);
	if (diag < 0)
		return tei_is_shortage(-errno) ? -errno : -EOPNOTSUPP;
	return diag;
}

/*
 * Ask sock_diag. A kernel without it for tcp says that nothing is to be found,
 * also of our own end, which is there.
 */
static int find_by_diag(const struct end *peer, const struct end *own,
			struct socket_owner *out)
{
	struct socket_owner ours;
	int rc, diag = diag_open();

	if (diag < 0)
		return diag;
	rc = diag_find(diag, peer, own, out);
	if (rc == -ENOENT && diag_find(diag, own, peer, &ours))
		rc = -EOPNOTSUPP;
	close(diag);
	return !rc || rc == -ENOENT || tei_is_shortage(rc) ? rc : -EOPNOTSUPP;
}

/* ---- the first question ---- */

enum way {
	UNDECIDED,
	BY_DIAG,
	BY_PROC, /* sock_diag is not asked any more */
};

/* For all servers of the process. Relaxed: nothing else depends on it. */
static _Atomic int way;

/* Listen where nobody is told of; *out: where. */
static int open_known(struct end *out)
{
	struct tei_address a = {.len = sizeof(a.ss)};
	struct sockaddr_in here = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && !bind(fd, (struct sockaddr *)&here, sizeof(here)) &&
	    !listen(fd, 1) &&
	    !getsockname(fd, (struct sockaddr *)&a.ss, &a.len) &&
	    !end_of(&a, out))
		return fd;
	if (fd >= 0)
		close(fd);
	return -EOPNOTSUPP;
}

/* UNDECIDED: no descriptor is left, or loopback is down. */
static enum way ask_of_known(void)
{
	const struct end nobody = {.len = 4};
	struct socket_owner found;
	struct end known;
	int rc, diag, fd = open_known(&known);

	if (fd < 0)
		return UNDECIDED;
	diag = diag_open();
	rc = diag < 0 ? diag : diag_find(diag, &known, &nobody, &found);
	if (diag >= 0)
		close(diag);
	close(fd);
	if (!rc)
		return BY_DIAG;
	return tei_is_shortage(rc) ? UNDECIDED : BY_PROC;
}

static void log_way(enum way decided, uint64_t took_ms)
{
	if (decided == BY_PROC)
		LOG_WARN("protected mode: this system has no sock_diag for tcp "
			 "(asked for %llu ms): /proc/net/tcp tells whose "
			 "connections are, the slower the more sockets there "
			 "are: load the kernel modules inet_diag and tcp_diag, "
			 "or serve every user with --allow_uids=any",
			 (unsigned long long)took_ms);
	else if (took_ms >= SLOW_FIRST_MS)
		LOG_WARN("protected mode: sock_diag tells whose connections "
			 "are; its first answer took %llu ms: load the kernel "
			 "modules inet_diag and tcp_diag with the system",
			 (unsigned long long)took_ms);
	else
		LOG_DEBUG("protected mode: sock_diag tells whose connections "
			  "are");
}

static enum way decide(void)
{
	int decided = atomic_load_explicit(&way, memory_order_relaxed);
	uint64_t since = tei_now_ms();
	int before = UNDECIDED;

	if (decided != UNDECIDED)
		return (enum way)decided;
	decided = (int)ask_of_known();
	if (decided == UNDECIDED)
		return UNDECIDED;
	if (!atomic_compare_exchange_strong_explicit(&way, &before, decided,
						     memory_order_relaxed,
						     memory_order_relaxed))
		return (enum way)before; /* another thread was first */
	log_way((enum way)decided, tei_now_ms() - since);
	return (enum way)decided;
}

/* ---- through all sockets ---- */

/* "0100007F:C350", as /proc/net writes it; @mapped: in the file of IPv6. */
static size_t print_end(const struct end *e, bool mapped, char *out)
{
	uint8_t ip[16] = {0};
	size_t len = e->len, n = 0;
	uint32_t word;

	memcpy(ip, e->ip, e->len);
	if (e->len == 4 && mapped) {
		memset(ip, 0, sizeof(ip));
		ip[10] = ip[11] = 0xff;
		memcpy(ip + 12, e->ip, 4);
		len = sizeof(ip);
	}
	for (size_t i = 0; i < len; i += sizeof(word)) {
		memcpy(&word, ip + i, sizeof(word));
		n += (size_t)sprintf(out + n, "%08X", word);
	}
	return n + (size_t)sprintf(out + n, ":%04X", e->port);
}

/* Two ends as a line has them: ": LOCAL REMOTE ". */
struct pattern {
	char text[100];
	size_t len;
};

static struct pattern pattern_of(const struct end *src, const struct end *dst,
				 bool mapped)
{
	struct pattern p = {.text = ": ", .len = 2};

	p.len += print_end(src, mapped, p.text + p.len);
	p.text[p.len++] = ' ';
	p.len += print_end(dst, mapped, p.text + p.len);
	p.text[p.len++] = ' ';
	return p;
}

static bool read_line(const char *line, const struct pattern *wanted,
		      struct socket_owner *out)
{
	const char *at = strstr(line, wanted->text);
	unsigned int state, uid;
	unsigned long inode;

	if (!at || sscanf(at + wanted->len, "%x %*x:%*x %*x:%*x %*x %u %*u %lu",
			  &state, &uid, &inode) != 3)
		return false;
	*out = (struct socket_owner){
		.uid = uid, .inode = inode, .state = (int)state};
	return true;
}

/*
 * Look for the line of a socket in /proc/net/tcp or tcp6, until the thread has
 * used @end_ns of CPU time; -ENOBUFS: then it was not among those before.
 */
static int scan_file(const char *path, const struct pattern *wanted,
		     uint64_t end_ns, struct socket_owner *out)
{
	char line[LINE_MAX_LEN];
	FILE *file = fopen(path, "re");
	uint64_t n = 0;
	int rc = -ENOENT;

	if (!file)
		return tei_is_shortage(-errno) ? -errno : -EOPNOTSUPP;
	while (rc == -ENOENT && fgets(line, sizeof(line), file)) {
		if (read_line(line, wanted, out))
			rc = 0;
		else if (++n % SCAN_LINES == 0 && tei_thread_cpu_ns() >= end_ns)
			rc = -ENOBUFS;
	}
	(void)fclose(file);
	return rc;
}

static int scan_files(const struct end *src, const struct end *dst,
		      uint64_t end_ns, struct socket_owner *out)
{
	struct pattern wanted = pattern_of(src, dst, false);
	int rc = -ENOENT;

	if (src->len == 4)
		rc = scan_file("/proc/net/tcp", &wanted, end_ns, out);
	if (rc != -ENOENT)
		return rc;
	wanted = pattern_of(src, dst, true);
	return scan_file("/proc/net/tcp6", &wanted, end_ns, out);
}

/*
 * Looks through all sockets of this namespace are limited together, since
 * whoever connects causes one. Relaxed: nothing else depends on it.
 */
static _Atomic uint64_t scans_paid_ns; /* when the looks so far are paid for */

static bool may_scan(void)
{
	return atomic_load_explicit(&scans_paid_ns, memory_order_relaxed) <=
	       tei_now_ns();
}

static void pay_for_scan(uint64_t cpu_ns)
{
	uint64_t now_ns = tei_now_ns(), least = 0, paid, next;

	if (now_ns > SCAN_SAVED_NS)
		least = now_ns - SCAN_SAVED_NS;
	paid = atomic_load_explicit(&scans_paid_ns, memory_order_relaxed);
	do {
		next = (paid > least ? paid : least) + SCAN_TIMES * cpu_ns;
	} while (!atomic_compare_exchange_weak_explicit(
		&scans_paid_ns, &paid, next, memory_order_relaxed,
		memory_order_relaxed));
}

static void log_too_many(void)
{
	static struct tei_log_limit limit = {.per_minute = 6};

	if (tei_log_allowed(&limit))
		LOG_WARN("protected mode: /proc/net/tcp has too many sockets "
			 "to look for whose a connection is: load the kernel "
			 "modules inet_diag and tcp_diag and start the server "
			 "again, or serve every user with --allow_uids=any");
}

static int find_by_proc(const struct end *peer, const struct end *own,
			struct socket_owner *out)
{
	uint64_t since_ns = tei_thread_cpu_ns();
	uint64_t end_ns = since_ns + SCAN_MAX_NS;
	struct socket_owner ours;
	int rc, own_rc = 0;

	if (!may_scan())
		return -ENOBUFS;
	rc = scan_files(peer, own, end_ns, out);
	if (rc == -ENOENT)
		own_rc = scan_files(own, peer, end_ns, &ours);
	if (rc == -ENOBUFS || own_rc == -ENOBUFS) {
		log_too_many();
		rc = -ENOBUFS;
	} else if (own_rc) {
		rc = -EOPNOTSUPP; /* it shows nothing of this namespace */
	}
	pay_for_scan(tei_thread_cpu_ns() - since_ns);
	return rc;
}

static bool is_connected(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) &&
	       (info.tcpi_state == TCP_ESTABLISHED ||
		info.tcpi_state == TCP_CLOSE_WAIT);
}

/* The peer may have shut down its sending half. */
static bool is_held(const struct socket_owner *h)
{
	return h->inode &&
	       (h->state == TCP_ESTABLISHED || h->state == TCP_FIN_WAIT1 ||
		h->state == TCP_FIN_WAIT2);
}

static int tcp_uid(int fd, uint32_t *uid)
{
	struct tei_address a, b;
	struct end peer, own;
	struct socket_owner found = {.inode = 0};
	int rc = -EOPNOTSUPP;

	if (!tei_socket_ends(fd, &a, &b))
		return -ENOTCONN;
	if (end_of(&b, &peer) || end_of(&a, &own))
		return -EOPNOTSUPP;
	if (decide() != BY_PROC)
		rc = find_by_diag(&peer, &own, &found);
	if (rc == -EOPNOTSUPP && is_connected(fd)) /* a reset is no look */
		rc = find_by_proc(&peer, &own, &found);
	if (!is_connected(fd) || (!rc && !is_held(&found)))
		return -ENOTCONN;
	if (!rc)
		*uid = found.uid;
	return rc;
}

int tei_peer_uid(int fd, uint32_t *uid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred), domain_len = sizeof(int);
	int domain;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len))
		return -EOPNOTSUPP;
	if (domain == AF_INET || domain == AF_INET6)
		return tcp_uid(fd, uid);
	if (domain != AF_UNIX ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -EOPNOTSUPP;
	if (cred.uid == TEI_PEER_NO_UID)
		return -ENOTCONN;
	*uid = cred.uid;
	return 0;
}

/* ---- the rule ---- */

static bool any_is_member(const struct tei_peer_rule *rule)
{
	return rule->uids.n && rule->uids.ranges[0].last == TEI_PEER_NO_UID;
}

int tei_peer_rule_init(struct tei_peer_rule *out, bool insecure,
		       const char *allow_uids)
{
	out->insecure = insecure;
	if (tei_uids_parse(allow_uids, &out->uids))
		return -EINVAL;
	if (!any_is_member(out))
		(void)decide();
	return 0;
}

bool tei_peer_is_member(const struct tei_peer_rule *rule, uint32_t uid)
{
	return uid == 0 || uid == geteuid() || tei_uids_has(&rule->uids, uid);
}

/* Refusals of other hosts do not use up the lines for those of users. */
static void log_refusal(bool is_user, const char *what,
			const struct tei_address *peer, const char *why)
{
	static struct tei_log_limit limits[2] = {{.per_minute = 6},
						 {.per_minute = 6}};
	char name[TEI_NAME_LEN_MAX + 1];

	if (!what || !tei_log_allowed(&limits[is_user]))
		return;
	tei_address_text(peer, name);
	LOG_WARN("%s: refused %s: %s", what, name, why);
}

bool tei_peer_host_allowed(const struct tei_peer_rule *rule,
			   const struct tei_address *peer, const char *what)
{
	if (rule->insecure || tei_address_is_local(peer))
		return true;
	log_refusal(false, what, peer, TEI_PROTECTED_TEXT);
	return false;
}

static void word_stranger(const struct tei_peer_rule *rule, uint32_t uid,
			  char why[TEI_PEER_TEXT_MAX])
{
	char own[32] = "";
	const char *rest = "root is";

	if (geteuid()) {
		(void)snprintf(own, sizeof(own), "user %u and ",
			       (unsigned int)geteuid());
		rest = "root are";
	}
	if (rule->uids.n)
		rest = "root and the users of allow_uids are";
	(void)snprintf(why, TEI_PEER_TEXT_MAX,
		       "protected mode: on this host only %s%s served, and "
		       "this is user %u: add %u to the server's --allow_uids "
		       "or MOONCAKE_ALLOW_UIDS, or start it with --insecure or "
		       "MOONCAKE_INSECURE=1 to serve all",
		       own, rest, uid, uid);
}

static void word_unknown(int err, char why[TEI_PEER_TEXT_MAX])
{
	(void)snprintf(
		why, TEI_PEER_TEXT_MAX,
		"protected mode: cannot tell whose process this is (%s): "
		"start the server with --allow_uids=any to serve every "
		"user of this host, or with --insecure or "
		"MOONCAKE_INSECURE=1 to serve everybody",
		err == -ENOENT ? "it is in another network namespace"
			       : "neither sock_diag nor /proc/net/tcp "
				 "tells");
}

enum tei_peer_verdict
tei_peer_admit_user(const struct tei_peer_rule *rule, int fd,
		    const struct tei_address *peer, const char *what,
		    char why[TEI_PEER_TEXT_MAX], uint32_t *uid)
{
	int rc;

	why[0] = '\0';
	*uid = TEI_PEER_NO_UID;
	if (peer->ss.ss_family != AF_UNIX && !tei_address_is_local(peer)) {
		if (rule->insecure)
			return TEI_PEER_GUEST;
		log_refusal(false, what, peer, TEI_PROTECTED_TEXT);
		(void)snprintf(why, TEI_PEER_TEXT_MAX, "%s",
			       TEI_PROTECTED_TEXT);
		return TEI_PEER_REFUSED;
	}
	if (any_is_member(rule))
		return TEI_PEER_MEMBER;
	rc = tei_peer_uid(fd, uid);
	if (!rc && tei_peer_is_member(rule, *uid))
		return TEI_PEER_MEMBER;
	if (rule->insecure)
		return TEI_PEER_GUEST;
	if (rc == -ENOTCONN)
		return TEI_PEER_GONE;
	if (tei_is_shortage(rc)) {
		(void)snprintf(why, TEI_PEER_TEXT_MAX,
			       "no descriptor, memory or time left to look who "
			       "asks: try again");
		return TEI_PEER_BUSY;
	}
	if (rc)
		word_unknown(rc, why);
	else
		word_stranger(rule, *uid, why);
	log_refusal(true, what, peer, why);
	return TEI_PEER_REFUSED;
}

enum tei_peer_verdict tei_peer_admit(const struct tei_peer_rule *rule, int fd,
				     const struct tei_address *peer,
				     const char *what,
				     char why[TEI_PEER_TEXT_MAX])
{
	uint32_t uid;

	return tei_peer_admit_user(rule, fd, peer, what, why, &uid);
}
