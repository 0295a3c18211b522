# SPDX-License-Identifier: Apache-2.0
# The benchmarks as users run them, briefly: what they report, not how fast.
te_tests(integration perf
	TESTS store_perf store_perf_mix te_perf te_perf_hosts te_perf_loads te_perf_modes te_perf_pairs
		te_perf_strangers te_replay
	SOURCES fake_host.c tool.c LIBRARIES te_perf_lib)
# With a driver of GPUs that the programs load.
te_tests(integration perf PROGRAM integration_perf_gpu
	TESTS engine_bench_gpu te_perf_gpu
	SOURCES tool.c LIBRARIES te_perf_lib $<TARGET_OBJECTS:te_test_fake_cuda>)
add_dependencies(integration_perf_gpu fake_cuda te-perf transfer_engine_bench)
add_dependencies(integration_perf mooncake_client mooncake_master store-perf te-perf
	te-replay)
