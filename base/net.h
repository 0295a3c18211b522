/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h - names of the form host:port, listening sockets, addresses of this
 * host, and descriptors that are passed to another process of it
 */
#ifndef BASE_NET_H
#define BASE_NET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define TEI_HOST_LEN_MAX 255                    /* without the terminating 0 */
#define TEI_NAME_LEN_MAX (TEI_HOST_LEN_MAX + 8) /* [host]:port */

struct tei_address {
	struct sockaddr_storage ss;
	socklen_t len;
};

/*
 * Split "host", "host:port", "1.2.3.4:port", "[v6]:port", "v6" (two colons or
 * more without brackets are an address without port). *port is 0 when absent.
 * -EINVAL: empty host, port out of 0 .. 65535, unbalanced bracket, too long.
 */
int tei_name_split(const char *name, char host[TEI_HOST_LEN_MAX + 1],
		   uint16_t *port);
/* "host:port", or "[host]:port" when @host has a colon. */
void tei_name_join(const char *host, uint16_t port,
		   char out[TEI_NAME_LEN_MAX + 1]);

/* -EINVAL: @host is no numeric address. Never asks a resolver. */
int tei_resolve_numeric(const char *host, uint16_t port,
			struct tei_address *out);
/*
 * Look @host up: numeric at once, else by getaddrinfo. Fills @out[0 .. max).
 * Returns how many, or -EHOSTUNREACH (no such host), -EAGAIN, -ENOMEM.
 * Blocks on the resolver: control threads only.
 */
int tei_resolve(const char *host, uint16_t port, struct tei_address *out,
		int max);

/*
 * Bind and listen, close-on-exec and non-blocking. @host NULL or "": the
 * wildcard, IPv6 with v4-mapped where the system has IPv6, else IPv4. @port 0:
 * the kernel chooses. *out_port: the port bound. Returns the fd or a negative
 * errno, logged with @what ("control port"), host and port.
 */
int tei_listen(const char *host, uint16_t port, const char *what,
	       uint16_t *out_port);

/* This process or host lacks descriptors or memory; no fault of a peer's. */
bool tei_is_shortage(int err);
/*
 * Tries whether @n more descriptors can be opened now, at most 64. Returns 0,
 * or -EMFILE or -ENFILE: for libraries that do not say so. Any thread.
 */
int tei_fds_spare(unsigned int n);

/* "1.2.3.4:567", v4-mapped addresses as IPv4. */
void tei_address_text(const struct tei_address *a,
		      char out[TEI_NAME_LEN_MAX + 1]);
uint16_t tei_address_port(const struct tei_address *a);
/* The same host, whatever the port; IPv4 in either form. */
bool tei_address_same_host(const struct tei_address *a,
			   const struct tei_address *b);
/* Finds the addresses of both ends of a connected socket. False: it is none. */
bool tei_socket_ends(int fd, struct tei_address *own, struct tei_address *peer);
/* The 4 or 16 bytes of its host; 0: neither IPv4 nor IPv6. */
size_t tei_address_bytes(const struct tei_address *a, uint8_t out[16]);
/* The reverse; false: @len is neither. */
bool tei_address_from_bytes(const uint8_t *bytes, size_t len, uint16_t port,
			    struct tei_address *out);
void tei_address_set_port(struct tei_address *a, uint16_t port);

/*
 * Number of the interface of this host that has @address, whatever its port; 0:
 * none. *prefix: bits of it that are the network's, all of them without an
 * interface. -errno: it could not be asked for. Any thread.
 */
int tei_interface_of(const struct tei_address *address, uint8_t *prefix);
/*
 * Tells whether the first @prefix bits of two hosts' bytes are equal; 0: never.
 */
bool tei_same_network(const uint8_t *a, const uint8_t *b, unsigned int prefix);

/* Scope of an address: how far packets to it get; the further, the larger. */
enum tei_scope {
	TEI_SCOPE_NONE,    /* no host's: zero, loopback, multicast */
	TEI_SCOPE_LINK,    /* fe80::/10, 169.254/16 */
	TEI_SCOPE_PRIVATE, /* RFC 1918, 100.64/10, fc00::/7 */
	TEI_SCOPE_GLOBAL,
};

/* Classifies an IPv6 address, or an IPv4 one in v4-mapped form. */
enum tei_scope tei_scope_of(const uint8_t addr[16]);
/*
 * Ranks a GID (the address of an RDMA port) of RoCE version 2 or InfiniBand: 0:
 * not to be used, else the higher the better. @interface: one of this host's is
 * seen to have it; that decides unless the scopes are global and private.
 */
unsigned int tei_gid_rank(enum tei_scope scope, bool interface);

/*
 * Tells whether @peer is this same host: loopback or one of this host's own
 * addresses (getifaddrs, cached for 1 s). v4-mapped addresses count as their
 * IPv4. Any thread.
 */
bool tei_address_is_local(const struct tei_address *peer);

#define TEI_FDS_MAX 8 /* that a hostile peer may make us take and close */

/* Lives until the message is sent, or taken from. */
union tei_fds_room {
	char bytes[CMSG_SPACE(TEI_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

/* Let @fd go with a message that has none. */
void tei_fds_attach(struct msghdr *msg, union tei_fds_room *room, int fd);
/* The same of @n descriptors, 1 to TEI_FDS_MAX. */
void tei_fds_attach_all(struct msghdr *msg, union tei_fds_room *room,
			const int *fds, unsigned int n);

/*
 * Take the first descriptor that came with a message, and close all others. How
 * many there were; those that this process had no room for are missing, and
 * MSG_CTRUNC is set. None: *fd is untouched.
 */
unsigned int tei_fds_take(struct msghdr *msg, int *fd);
/* The same of all that came; the others of @fds are untouched. */
unsigned int tei_fds_take_all(struct msghdr *msg, int fds[TEI_FDS_MAX]);

#endif
