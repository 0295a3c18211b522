# SPDX-License-Identifier: Apache-2.0
te_tests(unit perf
	TESTS bare csv errors fields histogram intervals locations lru nics node pattern
		percentiles plot popularity process report schedule scheme shuffle
		table trace weights
	LIBRARIES te_perf_lib)
target_sources(unit_perf PRIVATE
	${PROJECT_SOURCE_DIR}/perf/store-perf/intervals.c
	${PROJECT_SOURCE_DIR}/perf/te-perf/errors.c
	${PROJECT_SOURCE_DIR}/perf/te-perf/locations.c
	${PROJECT_SOURCE_DIR}/perf/te-perf/scheme.c)
target_compile_definitions(unit_perf PRIVATE
	TE_TRACES="${PROJECT_SOURCE_DIR}/perf/traces")
