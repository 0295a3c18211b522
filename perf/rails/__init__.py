# SPDX-License-Identifier: Apache-2.0
"""Two hosts with two networks between them, on one machine."""
