/* SPDX-License-Identifier: Apache-2.0 */
/* module.c - finding modules and loading them */
#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Try "@dir[len]@more@name". NULL: it cannot be loaded, for a reason in @why. */
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

/* Beside this library, or in ../lib of the program that it is part of. */
static void *load_beside(const char *name, char *why)
{
	static const char *const more[] = {"/", "/../lib/"};
	void *module = NULL;
	const char *slash;
	Dl_info self;

	if (!dladdr((void *)(uintptr_t)&tei_module_load, &self))
		return NULL;
	slash = strrchr(self.dli_fname, '/');
	if (!slash)
		return NULL;
	for (size_t i = 0; !module && i < sizeof(more) / sizeof(more[0]); i++)
		module = load_from(self.dli_fname,
				   (size_t)(slash - self.dli_fname), more[i],
				   name, why);
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
