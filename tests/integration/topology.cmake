# SPDX-License-Identifier: Apache-2.0
# te-topo as users run it.
te_test(integration topology te_topo te_test_all)
add_dependencies(test_integration_topology_te_topo te-topo)
