# SPDX-License-Identifier: Apache-2.0
# The benchmarks as users run them, briefly: what they report, not how fast.
add_library(te_test_perf STATIC perf/tool.c)
target_link_libraries(te_test_perf PUBLIC te_test_all)
foreach(name te_perf store_perf te_replay)
	te_test(integration perf ${name} te_test_perf te_test_all)
	string(REPLACE _ - tool ${name})
	add_dependencies(test_integration_perf_${name} ${tool})
endforeach()
foreach(name te_perf_modes te_perf_strangers)
	te_test(integration perf ${name} te_test_perf te_test_all)
	add_dependencies(test_integration_perf_${name} te-perf)
endforeach()
te_test(integration perf store_perf_mix te_test_perf te_test_all)
add_dependencies(test_integration_perf_store_perf_mix store-perf)
foreach(name store_perf store_perf_mix te_replay)
	add_dependencies(test_integration_perf_${name} mooncake_master
		mooncake_client)
endforeach()
