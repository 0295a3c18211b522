# SPDX-License-Identifier: Apache-2.0
"""mooncake.structured_object_store in parts: bundles, batches and codecs."""
