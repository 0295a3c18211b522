/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h - ports of devices: found, opened, looked at again
 *
 * A rail is a port. Each opens its device by itself, so that its events, its
 * domain and its queue are its own.
 */
#ifndef VERBS_PORT_H
#define VERBS_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/verbs/config.h"
#include "backends/verbs/gid.h"
#include "backends/verbs/limits.h"
#include "backends/verbs/provider.h"
#include "backends/verbs/wire.h"
#include "te/backend.h"

struct verbs_port {
	const struct verbs_provider *api;
	const struct verbs_config *config; /* not owned */
	struct ibv_context *context;
	struct ibv_device_attr device;
	uint8_t number;
	char name[48]; /* "mlx5_0/1" */

	/* NULL, or why it cannot be used yet; then the rest means nothing. */
	const char *why;
	/*
	 * Attributes that tei_verbs_port_look() found when the port was last
	 * usable.
	 */
	struct ibv_port_attr attr;
	enum verbs_link link;
	struct verbs_gid gid;
	struct verbs_offer offer;
	struct verbs_room room;
};

/*
 * Report every port that the settings want, as probe() in te/backend.h does,
 * also those that have no link or address yet. What can never be used is left
 * out, with a line in the log that says why.
 * -EINVAL: a setting names a device that is not there. @api NULL: there are
 *   none.
 */
int tei_verbs_ports_find(const struct verbs_provider *api,
			 const struct verbs_config *config,
			 tei_device_fn *found, void *arg);

/*
 * Open the port of that name; close() undoes it. @config is borrowed until
 * then. It may be one that cannot be used yet: @port->why. -ENODEV: it is gone,
 * or can never be used. Blocks.
 */
int tei_verbs_port_open(struct verbs_port *port,
			const struct verbs_provider *api,
			const struct verbs_config *config, const char *name);
void tei_verbs_port_close(struct verbs_port *port);
/*
 * Ask the device for the port's state, addresses and limits. -ENETDOWN: it
 * cannot be used now, and what was known of it has not changed; logged. Token.
 */
int tei_verbs_port_look(struct verbs_port *port);
/*
 * Asks the device for the port's MTU alone: it may change without an event
 * (rxe, and NICs whose interface got another one). What a port without a link
 * says is passed over. Returns 0 or what asking failed with; logged. Token.
 */
int tei_verbs_port_measure(struct verbs_port *port);
/* Fills in the core's description of the device. */
void tei_verbs_port_report(const struct verbs_port *port,
			   struct tei_device *out);

#endif
