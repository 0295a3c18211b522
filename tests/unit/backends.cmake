# SPDX-License-Identifier: Apache-2.0
# These define the core's side themselves, so nothing of te/ is linked.
te_tests(unit backends
	TESTS bursts copied copied_hostile devices hostile rdma_local rdma_range rdma_regions read_fd shm_attach
		shm_owner transfer trouble zerocopy
	SOURCES fake_core.c raw.c shm_raw.c)
if(TARGET te_verbs)
	add_library(te_test_fake_verbs OBJECT
		../lib/fake_verbs/device.c
		../lib/fake_verbs/fabric.c
		../lib/fake_verbs/memory.c
		../lib/fake_verbs/pair.c
		../lib/fake_verbs/queue.c
		../lib/fake_verbs/run.c)
	target_link_libraries(te_test_fake_verbs PRIVATE te_flags)
	set(fake_verbs $<TARGET_OBJECTS:te_test_fake_verbs>)
	# The same with devices that a test plays.
	te_tests(unit backends PROGRAM unit_backends_verbs
		TESTS verbs_bounce verbs_connect verbs_ending verbs_gid verbs_gone
			verbs_limits verbs_match verbs_peers verbs_port verbs_real
			verbs_regions verbs_transfer verbs_trouble verbs_wire
		SOURCES fake_core.c verbs_rig.c
		LIBRARIES ${fake_verbs})
	# Engines over such devices: the core is the real one.
	te_tests(unit backends PROGRAM unit_backends_engines
		TESTS verbs_engines verbs_late verbs_load verbs_slow
		LIBRARIES ${fake_verbs})
	foreach(program verbs engines)
		add_dependencies(unit_backends_${program} te_verbs)
	endforeach()
endif()
if(TARGET te_ofi)
	add_library(te_test_fake_ofi OBJECT
		../lib/fake_ofi/av.c
		../lib/fake_ofi/cm.c
		../lib/fake_ofi/cq.c
		../lib/fake_ofi/endpoint.c
		../lib/fake_ofi/events.c
		../lib/fake_ofi/fabric.c
		../lib/fake_ofi/faults.c
		../lib/fake_ofi/info.c
		../lib/fake_ofi/memory.c
		../lib/fake_ofi/run.c)
	target_link_libraries(te_test_fake_ofi PRIVATE te_flags)
	target_include_directories(te_test_fake_ofi SYSTEM PRIVATE
		${LIBFABRIC_INCLUDE_DIRS})
	te_tests(unit backends PROGRAM unit_backends_ofi
		TESTS ofi_bounce ofi_chaos ofi_fake ofi_hostile ofi_load ofi_module ofi_open ofi_real ofi_spread ofi_trouble
			ofi_wire ofi_words
		SOURCES fake_core.c ofi_rig.c
		LIBRARIES $<TARGET_OBJECTS:te_test_fake_ofi>)
	# Engines over such providers: the core is the real one.
	te_tests(unit backends PROGRAM unit_backends_ofi_engines
		TESTS ofi_engines
		LIBRARIES $<TARGET_OBJECTS:te_test_fake_ofi>)
	foreach(program ofi ofi_engines)
		add_dependencies(unit_backends_${program} te_ofi)
	endforeach()
	set_tests_properties(unit.backends.ofi_real PROPERTIES
		ENVIRONMENT ${te_libfabric})
endif()
