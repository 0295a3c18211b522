/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.h - version of the library, and the mark of its exported symbols
 */
#ifndef TE_VERSION_H
#define TE_VERSION_H

#define TE_VERSION_MAJOR 0
#define TE_VERSION_MINOR 1
#define TE_VERSION_PATCH 0
#define TE_VERSION       "0.1.0"

#if defined(__GNUC__)
#define TE_API __attribute__((visibility("default")))
#else
#define TE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * te_version - return the version of the loaded library, "0.1.0"
 *
 * Threads: any. Blocks: never.
 */
TE_API const char *te_version(void);

#ifdef __cplusplus
}
#endif

/*
 * The release of Mooncake whose interfaces this one has. What Python installs
 * is called by both: TE_VERSION_MOONCAKE+te.TE_VERSION.
 */
#define TE_VERSION_MOONCAKE "0.3.13.post1"

#endif
