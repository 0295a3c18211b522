# SPDX-License-Identifier: Apache-2.0
# Takes ten seconds of doing nothing: first in line, beside the others.
te_test(integration tcp slow)
target_link_options(test_integration_tcp_slow PRIVATE
	-Wl,--wrap=recv -Wl,--wrap=readv)
set_tests_properties(integration.tcp.slow PROPERTIES COST 100)
