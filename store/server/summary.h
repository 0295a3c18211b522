/* SPDX-License-Identifier: Apache-2.0 */
/*
 * summary.h - the master's figures in one line
 */
#ifndef STORE_SERVER_SUMMARY_H
#define STORE_SERVER_SUMMARY_H

struct evbuffer;
struct tes_server;

/* Adds the summary, with the line's end. */
void tes_server_summary(const struct tes_server *s, struct evbuffer *out);
/* Log it every 10 s (enable_metric_reporting), from now on. -ENOMEM. */
int tes_server_summary_start(struct tes_server *s);

#endif
