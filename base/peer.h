/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h - protected mode: whom a server serves while there are no keys
 *
 * Members of a server are processes of this host that belong to the server's
 * own user, to root, or to a user that the setting allow_uids names. Members
 * are served; with the setting insecure everybody is. A connection's user comes
 * from the system and never from what the peer says. docs/decisions/049.
 *
 * Threads: any.
 */
#ifndef BASE_PEER_H
#define BASE_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct tei_address;

/* ---- lists of users ---- */

#define TEI_UIDS_MAX 64 /* users and ranges of a list */

struct tei_uids {
	struct tei_uid_range {
		uint32_t first, last;
	} ranges[TEI_UIDS_MAX];
	uint32_t n; /* 0: nobody */
};

/*
 * Read "1000,2000-2999" or "any"; NULL or "" is nobody. -EINVAL: malformed, an
 * id is no number below 2^32 - 1, or more than TEI_UIDS_MAX entries.
 */
int tei_uids_parse(const char *list, struct tei_uids *out);
bool tei_uids_has(const struct tei_uids *uids, uint32_t uid);

/* ---- the user at the other end of a connection ---- */

/*
 * Find the user of the process that holds the other end of @fd, a connected
 * socket of tcp or AF_UNIX. Asks the system: 20 us or so, never waits for the
 * peer. Where sock_diag is missing it looks through /proc/net/tcp, which takes
 * time in proportion to all sockets: 20 ms of CPU time at most, a fifth of the
 * time together, and beyond that asks for patience. The first question of a
 * process may wait for modprobe: tei_peer_rule_init() asks it. A user that has
 * no number in this process's user namespace is the overflow user (65534). On
 * success @fd was still a connection afterwards.
 *   -ENOTCONN    the peer has closed its end: nobody holds it any more
 *   -ENOENT      no process in this network namespace holds it
 *   -EOPNOTSUPP  this system does not tell, or @fd is another kind of socket
 *   -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM  ask again later
 */
int tei_peer_uid(int fd, uint32_t *uid);

/* ---- the rule ---- */

struct tei_peer_rule {
	bool insecure;        /* serve everybody */
	struct tei_uids uids; /* members beside the server's user and root */
};

/*
 * Fill @out from the settings insecure and allow_uids. -EINVAL: allow_uids. The
 * first one of a process finds out what tells the users of connections, unless
 * @out serves all, and warns where it is slow. Blocks for that as long as the
 * kernel takes to load a module; so to be called before anybody is served.
 */
int tei_peer_rule_init(struct tei_peer_rule *out, bool insecure,
		       const char *allow_uids);

enum tei_peer_verdict {
	TEI_PEER_MEMBER,
	TEI_PEER_GUEST,   /* no member: served because of insecure alone */
	TEI_PEER_REFUSED, /* told to the log, rate-limited */
	TEI_PEER_BUSY,    /* cannot be asked for now: it may try again */
	TEI_PEER_GONE,    /* it has closed its end */
};

#define TEI_PEER_TEXT_MAX 320

/*
 * Tell whether @uid is a member under @rule: the server's own effective user,
 * root, or a user of rule->uids.
 */
bool tei_peer_is_member(const struct tei_peer_rule *rule, uint32_t uid);
/*
 * Judge a connection, of tcp or AF_UNIX. @peer: the address of its other end;
 * @what: the port, for the log. Unless it is served, @why says for people who
 * is served and what to do, and the caller sends it.
 */
enum tei_peer_verdict tei_peer_admit(const struct tei_peer_rule *rule, int fd,
				     const struct tei_address *peer,
				     const char *what,
				     char why[TEI_PEER_TEXT_MAX]);
/*
 * The same. @uid: the peer's user, or TEI_PEER_NO_UID where the verdict did not
 * depend on it, so that nobody asked, or it is not known.
 */
#define TEI_PEER_NO_UID UINT32_MAX
enum tei_peer_verdict
tei_peer_admit_user(const struct tei_peer_rule *rule, int fd,
		    const struct tei_address *peer, const char *what,
		    char why[TEI_PEER_TEXT_MAX], uint32_t *uid);
/*
 * The first half of it, for ports that show things to every user of this host:
 * whether @peer is on this host, or @rule->insecure. False: it has been logged,
 * and the caller answers TEI_PROTECTED_TEXT.
 */
bool tei_peer_host_allowed(const struct tei_peer_rule *rule,
			   const struct tei_address *peer, const char *what);

#define TEI_PROTECTED_TEXT                                                    \
	"protected mode: only this host is served, there the server's own "   \
	"user, root and the users of allow_uids; start the server with "      \
	"--insecure or MOONCAKE_INSECURE=1 to serve everybody, other hosts, " \
	"too"

#endif
