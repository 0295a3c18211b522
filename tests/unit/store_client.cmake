# SPDX-License-Identifier: Apache-2.0
# A master as a process and an engine that a test can bend.
add_library(te_test_fake_te STATIC ../store/fake_te.c ../store/pool.c)
target_link_libraries(te_test_fake_te PRIVATE te_flags PkgConfig::CMOCKA)

te_test(unit store_client bad_master te_test_fake_te)
te_test(unit store_client basics)
te_test(unit store_client buffers te_test_fake_te)
add_library(test_store_client_channel_rig STATIC store_client/channel_rig.c)
target_link_libraries(test_store_client_channel_rig PUBLIC te_test_all)
te_test(unit store_client channel test_store_client_channel_rig)
te_test(unit store_client directory te_test_fake_te)
add_library(test_store_client_executor_master STATIC
	store_client/executor_master.c)
target_link_libraries(test_store_client_executor_master PUBLIC te_test_all)
te_test(unit store_client executor
	test_store_client_executor_master te_test_fake_te)
te_test(unit store_client haste te_test_fake_te)
te_test(unit store_client hot te_test_fake_te)
te_test(unit store_client layout)
te_test(unit store_client locations te_test_fake_te)
te_test(unit store_client owners te_test_fake_te)
te_test(unit store_client parts te_test_fake_te)
te_test(unit store_client put_lanes)
te_test(unit store_client reads te_test_fake_te)
te_test(unit store_client values te_test_fake_te)
te_test(unit store_client link te_test_fake_te)
