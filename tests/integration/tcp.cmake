# SPDX-License-Identifier: Apache-2.0
# Takes ten seconds of doing nothing: first in line, beside the others.
te_tests(integration tcp TESTS slow)
target_link_options(integration_tcp PRIVATE -Wl,--wrap=recv -Wl,--wrap=readv)
set_tests_properties(integration.tcp.slow PROPERTIES COST 100)
