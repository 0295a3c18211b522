# SPDX-License-Identifier: Apache-2.0
# What the core should do, in arrays (model/), and owners' memory as the master's
# decisions leave it (memory/): for random schedules.
te_tests(unit store_core ONE_THREAD
	TESTS browse bury drain drain_fail drain_leave drain_move evict fence ghosts hot
		hits names news pin policy probe put random random_bury random_task
		random_tenant read repair replicas restart session space task task_end
		task_lost tenant trouble upsert watch
	SOURCES model/check.c model/end.c model/fence.c model/model.c model/offer.c model/read.c
		model/remove.c model/run.c model/session.c model/start.c
		memory/action.c memory/check.c memory/client.c memory/flight.c
		memory/put.c memory/task.c memory/world.c
	LIBRARIES te_policy_simulation te_perf_lib)
if(TARGET unit_store_core)
	target_compile_definitions(unit_store_core PRIVATE
		TE_TRACES="${PROJECT_SOURCE_DIR}/perf/traces")
endif()
