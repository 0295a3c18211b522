# SPDX-License-Identifier: Apache-2.0
# Hosts with several networks between them, in namespaces.
te_helper(rails_owner SOURCES rails/owner.c)
te_tests(integration rails
	TESTS networks still trouble
	SOURCES hosts.c)
add_dependencies(integration_rails rails_owner)
if(TARGET te_ofi)
	te_tests(integration rails
		PROGRAM integration_rails_libfabric
		TESTS libfabric
		SOURCES hosts.c)
	add_dependencies(integration_rails_libfabric rails_owner te_ofi)
	set_property(TEST integration.rails.libfabric APPEND PROPERTY ENVIRONMENT
		${te_libfabric})
endif()
# Ten seconds of doing nothing: first in line, beside the others.
set_tests_properties(integration.rails.still PROPERTIES COST 100)
