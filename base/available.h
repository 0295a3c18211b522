/* SPDX-License-Identifier: Apache-2.0 */
/*
 * available.h - how much memory this process can still get
 */
#ifndef BASE_AVAILABLE_H
#define BASE_AVAILABLE_H

#include <stdint.h>

/**
 * tei_memory_available - bytes that can be touched without being killed for it
 * @root: where /proc and /sys lie, "" but for tests
 *
 * The least of MemAvailable of /proc/meminfo and what the limits of its control
 * groups (version 2, memory.max of each up to the root) leave. An estimate:
 * others take memory as well. UINT64_MAX where nothing can be read.
 */
uint64_t tei_memory_available(const char *root);

#endif
