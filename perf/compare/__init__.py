# SPDX-License-Identifier: Apache-2.0
"""The same work on this engine and on the peers that are installed."""
