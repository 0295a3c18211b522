/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ports.h - ports of the range that firewalls know, one after the other
 */
#ifndef PYTHON_ENGINE_PORTS_H
#define PYTHON_ENGINE_PORTS_H

#include "python/src/engine/engine.h"

struct py_ports {
	uint32_t min, max, next, n_tried;
};

/* MC_MIN_RPC_PORT to MC_MAX_RPC_PORT, 15000 to 17000, from anywhere in it. */
struct py_ports py_ports_begin(void);
/* The next one that is free just now; 0: none is, any other will do. */
uint32_t py_ports_next(struct py_ports *ports);

#endif
