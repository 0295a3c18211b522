/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - what programs written for Mooncake's C++ client ask of its
 * settings
 *
 * C++ only, and nothing but headers.
 */
#ifndef MOONCAKE_CONFIG_H
#define MOONCAKE_CONFIG_H

#ifdef __cplusplus

#include <cstdint>
#include <cstdlib>

namespace mooncake
{

struct GlobalConfig {
	/* Bytes that are registered at once; 0: any number. MC_MAX_MR_SIZE. */
	std::uint64_t max_mr_size = std::uint64_t{1} << 40;
};

/* Settings of the process; read from the environment when first asked for. */
inline GlobalConfig &globalConfig()
{
	static GlobalConfig config = [] {
		GlobalConfig c;
		const char *text = std::getenv("MC_MAX_MR_SIZE");
		char *end = nullptr;

		if (text && *text) {
			unsigned long long size = std::strtoull(text, &end, 10);

			if (!*end && size)
				c.max_mr_size = size;
		}
		return c;
	}();

	return config;
}

} // namespace mooncake

#endif
#endif
