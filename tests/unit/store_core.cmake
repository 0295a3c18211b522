# SPDX-License-Identifier: Apache-2.0
te_test(unit store_core space)
te_test(unit store_core put)
te_test(unit store_core read)
te_test(unit store_core news)
te_test(unit store_core session)
te_test(unit store_core fence)
te_test(unit store_core probe)
te_test(unit store_core evict)
# What the core should do, in arrays: for random schedules.
add_library(te_core_model STATIC
	store_core/model/check.c
	store_core/model/end.c
	store_core/model/fence.c
	store_core/model/model.c
	store_core/model/read.c
	store_core/model/remove.c
	store_core/model/run.c
	store_core/model/session.c
	store_core/model/start.c)
target_link_libraries(te_core_model PRIVATE te_test_all)
te_test(unit store_core random te_core_model)
te_test(unit store_core random_bury te_core_model)
# Owners' memory, as the master's decisions leave it.
add_library(te_core_memory STATIC
	store_core/memory/action.c
	store_core/memory/check.c
	store_core/memory/client.c
	store_core/memory/flight.c
	store_core/memory/put.c
	store_core/memory/task.c
	store_core/memory/world.c)
target_link_libraries(te_core_memory PRIVATE te_test_all)
te_test(unit store_core random_task te_core_memory)
te_test(unit store_core bury)
te_test(unit store_core restart)
te_test(unit store_core trouble)
te_test(unit store_core replicas)
te_test(unit store_core task)
te_test(unit store_core task_end)
te_test(unit store_core task_lost)
te_test(unit store_core repair)
te_test(unit store_core drain)
te_test(unit store_core drain_move)
te_test(unit store_core drain_fail)
te_test(unit store_core drain_leave)
te_test(unit store_core upsert)
te_test(unit store_core pin)
te_test(unit store_core browse)
te_test(unit store_core tenant)
te_test(unit store_core random_tenant)
te_test(unit store_core ghosts)
te_test(unit store_core watch)
te_test(unit store_core heat)
foreach(name policy hits)
	te_test(unit store_core ${name}
		te_policy_simulation te_perf_lib te_test_objects)
	target_compile_definitions(test_unit_store_core_${name} PRIVATE
		TE_TRACES="${PROJECT_SOURCE_DIR}/perf/traces")
endforeach()
