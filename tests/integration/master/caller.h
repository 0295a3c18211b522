/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caller.h - a real mooncake_master, and raw conversations with it
 *
 * A caller is one connection that speaks frames without any client library,
 * so that tests can say what a client never would. Its loop runs only inside
 * these functions.
 */
#ifndef TESTS_INTEGRATION_MASTER_CALLER_H
#define TESTS_INTEGRATION_MASTER_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "store/proto/store.pb-c.h"
#include "tests/lib/process.h"

#define SOON_MS 60000

struct master {
	struct test_process *process;
	uint16_t rpc, http; /* ports */
};

/* @args ends with NULL; ports are chosen by the kernel. */
void master_start(struct master *m, const char *const args[]);
/* SIGTERM; it must exit with 0. */
void master_stop(struct master *m);

/*
 * Send @bytes[len] to @port, say that no more comes, and read until the other
 * side closes, which it must do. Returns how many bytes it answered.
 */
size_t master_throw(uint16_t port, const void *bytes, size_t len, char *answer,
		    size_t room);
/* Body of GET @path, freed by the caller with free(); *status is HTTP's. */
char *master_get(const struct master *m, const char *path, int *status);
/* The same for any request line but the version, "POST /path?a=b". */
char *master_ask(const struct master *m, const char *request, int *status);
/* The same with a body of @len bytes. */
char *master_send(const struct master *m, const char *request, const void *body,
		  size_t len, int *status);
/* The value of the metric whose line begins with @name; fails if absent. */
uint64_t master_metric(const struct master *m, const char *name);
/* The sum of all metrics whose lines begin with @prefix. */
uint64_t master_metric_sum(const struct master *m, const char *prefix);

struct caller;

struct caller *caller_open(const struct master *m);
void caller_close(struct caller *c); /* NULL is fine */
/*
 * Call and unpack the reply, to be freed with caller_free(). NULL: the
 * connection has ended instead.
 */
void *caller_call(struct caller *c, uint16_t type, const void *message,
		  const ProtobufCMessageDescriptor *reply);
void caller_free(void *reply);
/* Send without awaiting an answer. */
void caller_send(struct caller *c, uint16_t type, uint16_t flags, uint64_t id,
		 const void *message);
/* Until the other side has closed; false: it did not within SOON_MS. */
bool caller_wait_down(struct caller *c);
/* What the other side said when it refused us, or "". */
const char *caller_text(const struct caller *c);
/* Whether a fence was pushed to us, as seen by the calls so far. */
bool caller_take_fence(struct caller *c, uint64_t *fence, uint8_t writer[16]);

/* The next task that is pushed to us; to be freed with caller_free(). */
Store__Task *caller_wait_task(struct caller *c);

/* Of all hellos from now on: Hello.features and Hello.epoch, and, unless it is
 * NULL, the incarnation that the client claims, as those of version 2 did. */
extern const uint8_t *caller_claims;
/* Name of the engine in all hellos from now on; NULL: each its own. */
extern const char *caller_engine;
extern uint64_t caller_features, caller_epoch;
/* Say hello as client @who, an arbitrary small number. */
Store__HelloReply *caller_hello(struct caller *c, uint8_t who, bool heartbeat);
/* The same, and it must be accepted. */
struct caller *caller_join(const struct master *m, uint8_t who, bool heartbeat);
/* The id under which a master knows client @who, and the incarnation of its
 * engine. */
void caller_client_id(uint8_t who, uint8_t id[16]);
void caller_incarnation(uint8_t who, uint8_t incarnation[16]);
/* Mount a segment of @size bytes with number @id; returns the status. */
#define CALLER_BASE (1ull << 32) /* its address, unless one is given */
int32_t caller_mount(struct caller *c, uint8_t id, uint64_t size);
int32_t caller_mount_at(struct caller *c, uint8_t id, uint64_t address,
			uint64_t size);
/* The same as caller_mount() under a name; @why: room for the words, or NULL. */
int32_t caller_mount_as(struct caller *c, uint8_t id, const char *name,
			char why[128]);
int32_t caller_unmount(struct caller *c, uint8_t id);
void caller_heartbeat(struct caller *c, uint64_t epoch, bool *remount);
/* Of one that believes to have so many segments mounted. */
void caller_heartbeat_of(struct caller *c, uint64_t epoch, uint32_t mounts,
			 bool *remount);

/* Batches of one, on key @key; each returns the status. */
int32_t caller_put_start(struct caller *c, const char *key, uint64_t size,
			 uint64_t *generation, uint64_t *epoch);
int32_t caller_put_end(struct caller *c, const char *key, uint64_t generation,
		       uint64_t epoch, bool written);
/* Both, of 100 bytes, which must go well. */
void caller_put(struct caller *c, const char *key);
int32_t caller_lookup(struct caller *c, const char *key, uint64_t *size);
int32_t caller_remove(struct caller *c, const char *key, bool force);

#endif
