# SPDX-License-Identifier: Apache-2.0
# An engine that a test can bend, and a master as a process.
add_library(te_test_fake_te STATIC ../store/fake_te.c ../store/named.c ../store/pool.c)
target_link_libraries(te_test_fake_te PRIVATE te_flags PkgConfig::CMOCKA)
te_tests(unit store_client
	TESTS addresses bad_master basics buffers channel executor get_timeouts haste hot inventory layout ledger
		link locations owners parts reads values
	SOURCES channel_rig.c executor_master.c
	LIBRARIES te_test_fake_te)
