# SPDX-License-Identifier: Apache-2.0
te_tests(unit perf
	TESTS bare histogram lru nics pattern plot popularity process report room table
		trace weights
	LIBRARIES te_perf_lib)
target_compile_definitions(unit_perf PRIVATE
	TE_TRACES="${PROJECT_SOURCE_DIR}/perf/traces")
