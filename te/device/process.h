/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - GPUs' drivers for calls without an engine, and what they pinned
 *
 * The calls are in include/te/gpu.h. One set of drivers is opened per process,
 * when it is first needed, and stays open: allocators and memory of dummies
 * outlive engines.
 *
 * Threads: any. Lock 20 is held while a driver is opened.
 */
#ifndef TE_DEVICE_PROCESS_H
#define TE_DEVICE_PROCESS_H

#include <te/gpu.h>

/*
 * Unpins memory that is about to be unmapped; costs a load where nothing is
 * pinned.
 */
void tei_gpu_unmapping(void *addr);

#endif
