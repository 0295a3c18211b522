/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - libraries of ours that are loaded only by those who use them
 *
 * A module links code that few users need and that brings libraries with it. It
 * exports one const table that begins with struct tei_module, and calls nothing
 * of the library that loads it.
 */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H

#include <stdint.h>

#define TEI_MODULE_ERROR_LEN 160
#define TEI_MODULE_EXPORT    __attribute__((visibility("default")))

/* Head of each module's table. */
struct tei_module {
	uint32_t abi; /* of this kind of table */
	/*
	 * Runs before anything else, on the thread of a caller: what libraries
	 * make once must not be made while the process exits. Any number of
	 * times. 0 or a negative errno. NULL: there is nothing to make.
	 */
	int (*start)(void);
};

/*
 * Load NAME.so, which is never unloaded, and return its table @symbol. @path:
 * folders separated by colons; NULL: where this library is, or in ../lib of the
 * program that it is part of. NULL: it is not there, cannot be loaded, or is
 * not of @abi; @why says so. Blocks for the disk. Any thread.
 */
const void *tei_module_load(const char *path, const char *name,
			    const char *symbol, uint32_t abi,
			    char why[TEI_MODULE_ERROR_LEN]);

#endif
