# SPDX-License-Identifier: Apache-2.0
# te-doctor as users run it.
te_tests(integration doctor
	TESTS pairs peer te_doctor
	LIBRARIES te_doctor_checks)
add_dependencies(integration_doctor te-doctor)
