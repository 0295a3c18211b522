# SPDX-License-Identifier: Apache-2.0
foreach(name bare histogram lru nics pattern plot popularity process report table
		trace weights)
	te_test(unit perf ${name} te_perf_lib te_test_objects)
endforeach()
target_compile_definitions(test_unit_perf_lru PRIVATE
	TE_TRACES="${PROJECT_SOURCE_DIR}/perf/traces")
