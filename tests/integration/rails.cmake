# SPDX-License-Identifier: Apache-2.0
# Hosts with several networks between them, in namespaces.
add_executable(rails_owner rails/owner.c)
target_link_libraries(rails_owner PRIVATE te_test_all)
te_test(integration rails networks)
te_test(integration rails still)
te_test(integration rails trouble)
foreach(name networks still trouble)
	target_sources(test_integration_rails_${name} PRIVATE rails/hosts.c)
	add_dependencies(test_integration_rails_${name} rails_owner)
endforeach()
# Ten seconds of doing nothing: first in line, beside the others.
set_tests_properties(integration.rails.still PROPERTIES COST 100)
