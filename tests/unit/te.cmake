# SPDX-License-Identifier: Apache-2.0
te_tests(unit te
	TESTS absent attacks batch breaker callback config control crc directory directory_exit
		directory_odd driven engine expect group handle idle_wait inbound inbox meter
		names notify_owner plan queue reach refusal region remote silence stress topology turns workers
	SOURCES owner.c raw.c)
add_dependencies(unit_te te_directory_curl te_directory_redis)
set_tests_properties(unit.te.directory_odd PROPERTIES ENVIRONMENT
	TE_BACKEND_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
# Wraps functions, to give the thread that brings memory in a node and a time of its own.
te_tests(unit te PROGRAM unit_te_prefault
	TESTS prefault)
target_link_options(unit_te_prefault PRIVATE
	LINKER:--wrap=tei_memory_node,--wrap=tei_memory_prefer
	LINKER:--wrap=tei_now_ns,--wrap=tei_thread_cpu_ns,--wrap=tei_thread_start)
te_tests(unit te PROGRAM unit_te_device
	TESTS across across_chunks copying device gpu gpu_engines gpu_exit own_gpu place reached staging
		stream
	LIBRARIES $<TARGET_OBJECTS:te_test_fake_cuda>)
add_dependencies(unit_te_device fake_cuda)
# These bring a list of backends of their own.
te_tests(unit te PROGRAM unit_te_fake
	TESTS awake drops elsewhere failover flush homes impostor links merge notify notify_ends rails region_ends reroute spread
		revoke timer unmatched warm
	SOURCES fake.c raw.c)
te_tests(unit te PROGRAM unit_te_libfabric
	TESTS libfabric)
if(TARGET te_ofi)
	add_library(te_test_old_ofi MODULE ../lib/old_ofi.c)
	target_link_libraries(te_test_old_ofi PRIVATE te_flags)
	target_include_directories(te_test_old_ofi SYSTEM PRIVATE
		${LIBFABRIC_INCLUDE_DIRS})
	set_target_properties(te_test_old_ofi PROPERTIES PREFIX "" OUTPUT_NAME te_ofi
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/old_ofi)
	target_compile_definitions(unit_te_libfabric PRIVATE
		OLD_OFI="${CMAKE_BINARY_DIR}/tests/old_ofi")
	add_dependencies(unit_te_libfabric te_ofi te_test_old_ofi)
	set_tests_properties(unit.te.libfabric PROPERTIES ENVIRONMENT ${te_libfabric})
endif()
if(TARGET te_test_fake_verbs)
	te_tests(unit te PROGRAM unit_te_verbs
		TESTS cycles nodes protocol
		LIBRARIES $<TARGET_OBJECTS:te_test_fake_verbs>)
	te_tests(unit te PROGRAM unit_te_device_verbs
		TESTS device_verbs
		LIBRARIES $<TARGET_OBJECTS:te_test_fake_verbs>
			$<TARGET_OBJECTS:te_test_fake_cuda>)
	add_dependencies(unit_te_device_verbs fake_cuda)
endif()
