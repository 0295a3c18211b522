# SPDX-License-Identifier: Apache-2.0
te_tests(integration shm TESTS fallback)
