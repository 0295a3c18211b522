# SPDX-License-Identifier: Apache-2.0
te_test(integration shm fallback)
