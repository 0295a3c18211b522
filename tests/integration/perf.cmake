# SPDX-License-Identifier: Apache-2.0
# The benchmarks as users run them, briefly: what they report, not how fast.
add_library(te_test_perf STATIC perf/tool.c)
target_link_libraries(te_test_perf PUBLIC te_test_all)
foreach(name te_perf store_perf te_replay)
	te_test(integration perf ${name} te_test_perf te_test_all)
	string(REPLACE _ - tool ${name})
	add_dependencies(test_integration_perf_${name} ${tool})
endforeach()
te_test(integration perf te_perf_modes te_test_perf te_test_all)
add_dependencies(test_integration_perf_te_perf_modes te-perf)
foreach(name store_perf te_replay)
	add_dependencies(test_integration_perf_${name} mooncake_master
		mooncake_client)
endforeach()
