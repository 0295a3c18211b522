# SPDX-License-Identifier: Apache-2.0
# These define the core's side themselves, so nothing of te/ is linked.
add_library(te_test_fake_core OBJECT backends/fake_core.c)
target_link_libraries(te_test_fake_core PRIVATE te_flags)
set(fake $<TARGET_OBJECTS:te_test_fake_core>)
te_test(unit backends transfer ${fake})
add_library(te_test_raw OBJECT backends/raw.c)
target_link_libraries(te_test_raw PRIVATE te_flags)
set(raw ${fake} $<TARGET_OBJECTS:te_test_raw>)
te_test(unit backends hostile ${raw})
te_test(unit backends trouble ${raw})
te_test(unit backends trains ${raw})
te_test(unit backends zerocopy ${raw})
te_test(unit backends devices ${fake})
add_library(te_test_shm_raw OBJECT backends/shm_raw.c)
target_link_libraries(te_test_shm_raw PRIVATE te_flags)
te_test(unit backends shm_owner ${fake} $<TARGET_OBJECTS:te_test_shm_raw>)
te_test(unit backends shm_attach ${fake} $<TARGET_OBJECTS:te_test_shm_raw>)
te_test(unit backends shm_copy ${fake})
if(TARGET te_verbs)
	add_library(te_test_fake_verbs OBJECT
		../lib/fake_verbs/device.c
		../lib/fake_verbs/fabric.c
		../lib/fake_verbs/memory.c
		../lib/fake_verbs/pair.c
		../lib/fake_verbs/queue.c
		../lib/fake_verbs/run.c)
	target_link_libraries(te_test_fake_verbs PRIVATE te_flags)
	foreach(name gid limits port regions wire)
		te_test(unit backends verbs_${name}
			$<TARGET_OBJECTS:te_test_fake_verbs>)
	endforeach()
	add_library(te_test_verbs_rig OBJECT backends/verbs_rig.c)
	target_link_libraries(te_test_verbs_rig PRIVATE te_flags)
	foreach(name bounce connect ending gone match peers transfer trouble)
		te_test(unit backends verbs_${name} ${fake}
			$<TARGET_OBJECTS:te_test_fake_verbs>
			$<TARGET_OBJECTS:te_test_verbs_rig>)
	endforeach()
	te_test(unit backends verbs_real ${fake}
		$<TARGET_OBJECTS:te_test_fake_verbs>
		$<TARGET_OBJECTS:te_test_verbs_rig>)
	add_dependencies(test_unit_backends_verbs_real te_verbs)
	te_test(unit backends verbs_engines
		$<TARGET_OBJECTS:te_test_fake_verbs>)
	te_test(unit backends verbs_late
		$<TARGET_OBJECTS:te_test_fake_verbs>)
	te_test(unit backends verbs_slow
		$<TARGET_OBJECTS:te_test_fake_verbs>)
	te_test(unit backends verbs_load
		$<TARGET_OBJECTS:te_test_fake_verbs>)
	add_dependencies(test_unit_backends_verbs_load te_verbs)
endif()
