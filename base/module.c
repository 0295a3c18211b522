/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - finding modules and loading them */
#include "base/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Try "@dir[len]@more@name". NULL: it cannot be loaded, for a reason in @why.
 */
static void *load_from(const char *dir, size_t len, const char *more,
		       const char *name, char *why)
{
	char path[1024];
	const char *error;
	void *module;

	(void)snprintf(path, sizeof(path), "%.*s%s%s.so", (int)len, dir, more,
		       name);
	/* Never unloaded: threads may still run in what it has loaded. */
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	error = module ? NULL : dlerror();
	if (error && (!*why || !strstr(error, "No such file")))
		(void)snprintf(why, TEI_MODULE_ERROR_LEN, "%s", error);
	return module;
}

static void *load_beside_file(const char *file, const char *name, char *why)
{
	static const char *const more[] = {"/", "/../lib/"};
	const char *slash = strrchr(file, '/');
	void *module = NULL;

	for (size_t i = 0; slash && !module && i < sizeof(more) / sizeof(*more);
	     i++)
		module = load_from(file, (size_t)(slash - file), more[i], name,
				   why);
	return module;
}

/*
 * Beside this library, or in ../lib of the program that it is part of. What it
 * is called may be a link, such as /proc/self/exe.
 */
static void *load_beside(const char *name, char *why)
{
	char target[PATH_MAX];
	void *module;
	Dl_info self;

	if (!dladdr((void *)(uintptr_t)&tei_module_load, &self))
		return NULL;
	module = load_beside_file(self.dli_fname, name, why);
	if (!module && realpath(self.dli_fname, target))
		module = load_beside_file(target, name, why);
	return module;
}

/* @path: as tei_module_load(). */
static void *load(const char *path, const char *name, char *why)
{
	void *module = NULL;

	if (!path)
		return load_beside(name, why);
	while (!module && *path) {
		size_t len = strcspn(path, ":");

		module = load_from(path, len, "/", name, why);
		path += len + (path[len] == ':');
	}
	return module;
}

const void *tei_module_load(const char *path, const char *name,
			    const char *symbol, uint32_t abi,
			    char why[TEI_MODULE_ERROR_LEN])
{
	const struct tei_module *table;
	void *module;

	why[0] = '\0';
	module = load(path, name, why);
	if (!module) {
		if (!*why)
			(void)snprintf(why, TEI_MODULE_ERROR_LEN,
				       "%s.so is nowhere", name);
		return NULL;
	}
	table = dlsym(module, symbol);
	if (!table || table->abi != abi) {
		(void)snprintf(why, TEI_MODULE_ERROR_LEN,
			       "%s.so is of another version", name);
		return NULL;
	}
	if (table->start && table->start()) {
		(void)snprintf(why, TEI_MODULE_ERROR_LEN, "%s.so cannot start",
			       name);
		return NULL;
	}
	return table;
}
