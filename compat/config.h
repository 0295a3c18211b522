/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - settings of Mooncake's C++ client that programs read
 *
 * C++ only; a header without a library.
 */
#ifndef MOONCAKE_CONFIG_H
#define MOONCAKE_CONFIG_H

#ifdef __cplusplus

#include <cstdint>
#include <cstdlib>

namespace mooncake
{

struct GlobalConfig {
	/* Most bytes to register at once; 0: no limit. MC_MAX_MR_SIZE. */
	std::uint64_t max_mr_size = std::uint64_t{1} << 40;
};

/* Returns the process's settings; the first call reads the environment. */
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
