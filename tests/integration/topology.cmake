# SPDX-License-Identifier: Apache-2.0
# te-topo as users run it.
te_tests(integration topology TESTS te_topo)
add_dependencies(integration_topology te-topo)
