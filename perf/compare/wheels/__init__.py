# SPDX-License-Identifier: Apache-2.0
"""This project's wheel and the published one, through Python."""
