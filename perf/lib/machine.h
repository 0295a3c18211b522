/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - what a figure was measured on, for reports
 */
#ifndef PERF_LIB_MACHINE_H
#define PERF_LIB_MACHINE_H

#include <jansson.h>

/*
 * New object: version, kernel, cpu, cores, governor, congestion, load_average.
 * What is not known is "". NULL: no memory.
 */
json_t *tei_machine_json(void);

#endif
