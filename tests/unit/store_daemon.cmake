# SPDX-License-Identifier: Apache-2.0
# The agent over a store that the tests play themselves.
add_library(te_test_agent STATIC store_daemon/play.c)
target_link_libraries(te_test_agent PUBLIC te_test_all)
te_test(unit store_daemon greeting te_test_agent te_test_all)
te_test(unit store_daemon calls te_test_agent te_test_all)
te_test(unit store_daemon buffers te_test_agent te_test_all)
te_test(unit store_daemon dummy te_test_agent te_test_all)
