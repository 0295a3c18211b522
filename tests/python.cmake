# SPDX-License-Identifier: Apache-2.0
# Tests of the Python package, by pytest. It comes from an environment of its own
# that the first of them makes, where there are packages to install from.
set(python_venv ${CMAKE_BINARY_DIR}/python/venv)

add_test(NAME integration.python.venv
	COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/python/venv ${python_venv}
		${Python3_EXECUTABLE})
# In CI it has torch, too, which is large.
set_tests_properties(integration.python.venv PROPERTIES
	TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS integration
	FIXTURES_SETUP python_venv)

# Calls have their time on a machine that is slow, too: what looks at limits sets them.
set(python_environment PYTHONDONTWRITEBYTECODE=1 ${te_lazy}
	MC_RPC_TIMEOUT_MS=10000 TE_REPLICA_TIMEOUT=10s
	TE_WHEEL_DIR=${CMAKE_BINARY_DIR}/python/wheel
	TE_TESTS_DIR=${CMAKE_BINARY_DIR}/tests
	PYTHONPATH=${CMAKE_BINARY_DIR}/python:${CMAKE_CURRENT_SOURCE_DIR}/python)
if(TE_SANITIZE)
	# The interpreter has no sanitizers, so they come first, and its memory from
	# them; what cannot be had is NULL, as without them. It gives little back at
	# its end: what the modules leak cannot be told from that. torch is not fetched
	# once more for tests that run without this.
	set(preloaded "")
	foreach(name asan ubsan)
		execute_process(OUTPUT_VARIABLE library
			COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${name}.so
			OUTPUT_STRIP_TRAILING_WHITESPACE)
		list(APPEND preloaded ${library})
	endforeach()
	list(JOIN preloaded ":" preloaded)
	list(APPEND python_environment LD_PRELOAD=${preloaded}
		PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:strict_string_checks=1:check_initialization_order=1)
	set_tests_properties(integration.python.venv PROPERTIES ENVIRONMENT CI=)
endif()

# te_pytest(python engine): tests/python/test_engine.py -> integration.python.engine
function(te_pytest folder name)
	# Who hangs says where, before ctest ends it.
	math(EXPR patience "${TE_TEST_TIMEOUT} - 60")
	set(test integration.${folder}.${name})
	add_test(NAME ${test} COMMAND sh -c
		"test -x $0 || exit 77; $0 -m pytest -p no:cacheprovider -q -rs -o faulthandler_timeout=${patience} $1 || { rc=$?; test $rc != 5 || rc=77; exit $rc; }"
		${python_venv}/bin/python
		${CMAKE_CURRENT_SOURCE_DIR}/${folder}/test_${name}.py)
	set_tests_properties(${test} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77
		LABELS integration FIXTURES_REQUIRED python_venv
		ENVIRONMENT "${python_environment}")
endfunction()

# te_pytest_gpu(consumers sglang_pd expression): the tests of that file that the
# expression of pytest chooses, with memory of a GPU. All of them:
# TE_TEST_MEMORY=cuda:0 ctest -R "integration.(consumers|python.(engine|store))"
function(te_pytest_gpu folder name which)
	set(test integration.${folder}.${name}_gpu)
	add_test(NAME ${test} COMMAND sh -c
		"test -x $0 || exit 77; exec $0 -m pytest -p no:cacheprovider -q -rs -k \"$2\" $1"
		${python_venv}/bin/python
		${CMAKE_CURRENT_SOURCE_DIR}/${folder}/test_${name}.py ${which})
	set_tests_properties(${test} PROPERTIES
		TIMEOUT ${TE_TEST_TIMEOUT} SKIP_RETURN_CODE 77
		LABELS integration FIXTURES_REQUIRED python_venv
		ENVIRONMENT "${python_environment};TE_TEST_MEMORY=cuda:0")
endfunction()

te_pytest(python engine)
te_pytest(python engine_trouble)
te_pytest(python dummies) # skipped without torch, which only CI installs
te_pytest(python fast_copy)
te_pytest(python gil)
te_pytest(python groups)
te_pytest(python gpu)
te_pytest(python gpu_streams)
te_pytest(python infer)
te_pytest(python loopback)
te_pytest(python rpc)
te_pytest(python attacks)
te_pytest(python codecs)
te_pytest(python codec_stored)
te_pytest(python codec_tensors) # the same
te_pytest(python config)
te_pytest(python rest)
te_pytest(python rest_handlers)
te_pytest(python batches)
te_pytest(python bundles)
te_pytest(python buffer_pool)
te_pytest(python catalog)
te_pytest(python catalog_transfer)
te_pytest(python memory)
te_pytest(python metadata)
te_pytest(python msgpack)
te_pytest(python ranges)
te_pytest(python refusals)
te_pytest(python release)
te_pytest(python result_memory)
te_pytest(python schema)
te_pytest(python shards) # the same
te_pytest(python store)
te_pytest(python store_life)
te_pytest(python structured)
te_pytest(python structured_tensors) # the same
te_pytest(python stubs)
te_pytest(python surface)
te_pytest(python tensors) # the same
te_pytest(consumers vllm_ascend)
te_pytest(consumers vllm_encoder_cache)
te_pytest(consumers vllm_store)
te_pytest(consumers sglang_store)
te_pytest(consumers lmcache)
te_pytest(consumers lmcache_native)
te_pytest(consumers trouble)
te_pytest(consumers vllm_p2p)
te_pytest(consumers sglang_pd)
te_pytest(consumers sglang_omni)
te_pytest(consumers checkpoint_engine)
te_pytest(consumers services)
te_pytest_gpu(python engine "test")
te_pytest_gpu(python engine_trouble "not silent and not killed")
te_pytest_gpu(python gil "memory or waiting or calls_of_an_engine")
te_pytest_gpu(python memory "test")
te_pytest_gpu(python ranges "test")
te_pytest_gpu(python refusals "test")
te_pytest_gpu(python store "test")
te_pytest_gpu(python store_life "without or share_a_store or there_are_codes")
te_pytest_gpu(python structured "memory")
te_pytest_gpu(consumers vllm_store "test")
te_pytest_gpu(consumers vllm_ascend "layers or together")
te_pytest_gpu(consumers vllm_p2p "one_session")
te_pytest_gpu(consumers sglang_store "test")
te_pytest_gpu(consumers sglang_pd "forty_eight")
te_pytest_gpu(consumers lmcache "test")
te_pytest_gpu(consumers checkpoint_engine "weights")
# What is installed has no sanitizers.
if(NOT TE_SANITIZE)
	te_pytest(python wheel)
	# Builds all of the tree and two libraries once more, unless it has done so before.
	set_tests_properties(integration.python.wheel PROPERTIES TIMEOUT 2700
		FIXTURES_SETUP python_wheel)
	te_pytest(consumers packaging)
	set_property(TEST integration.consumers.packaging APPEND PROPERTY
		FIXTURES_REQUIRED python_wheel)
endif()
