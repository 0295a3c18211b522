# SPDX-License-Identifier: Apache-2.0
# The programs of cmd/ that have parts to test alone: te-doctor.
te_tests(unit cmd
	TESTS doctor_gpu doctor_host doctor_pairs doctor_peer doctor_rdma
	SOURCES patient.c
	LIBRARIES te_doctor_checks)
