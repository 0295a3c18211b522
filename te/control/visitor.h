/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visitor.h - one who has come to our control port, and its questions
 *
 * Threads: control.
 */
#ifndef TE_CONTROL_VISITOR_H
#define TE_CONTROL_VISITOR_H

#include "te/control/guest.h"

struct ProtobufCMessage;
struct tei_frame;
struct tei_frame_conn;

/* Serve a new connection. -ENOMEM: it stays the caller's. */
int tei_visitor_came(struct te_engine *engine, struct tei_frame_conn *conn);
/* Close its connection and forget it. Its guest's links live on. */
void tei_visitor_leave(struct tei_visitor *visitor);
/* Without memory for it, its connection ends. */
void tei_visitor_reply(struct tei_visitor *visitor, const struct tei_frame *to,
		       const struct ProtobufCMessage *m);
/* visit_notify.c: it has sent a Notify. */
void tei_visitor_notify(struct tei_visitor *visitor, const struct tei_frame *f);
/* visit_link.c: a Connect, a Drop. */
void tei_visitor_connect(struct tei_visitor *visitor,
			 const struct tei_frame *f);
void tei_visitor_drop(struct tei_visitor *visitor, const struct tei_frame *f);
/*
 * Tell it of our regions, if it has asked before and they have changed. False:
 * not now, it has not read what was sent before.
 */
bool tei_visitor_push(struct tei_visitor *visitor);

/* inbox.room(): tell the peer that it may notify again. */
void tei_notify_room(struct te_engine *engine, struct tei_guest *guest);

#endif
