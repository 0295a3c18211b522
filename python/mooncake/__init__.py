# SPDX-License-Identifier: Apache-2.0
"""Transfer engine and key/value pool, with Mooncake's names and results."""
