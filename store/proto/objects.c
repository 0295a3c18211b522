/* SPDX-License-Identifier: Apache-2.0 */
/* objects.c - the columns in which messages tell of objects */
#include "store/proto/objects.h"

bool tes_objects_fit(const Store__Objects *m)
{
	size_t n = m->n_extents ? 0 : m->n_key_lens;

	for (size_t i = 0; i < m->n_extents; i++)
		n += m->extents[i];
	return m->n_generation == m->n_key_lens &&
	       m->n_gen_epoch == m->n_key_lens && m->n_size == m->n_key_lens &&
	       (!m->n_extents || m->n_extents == m->n_key_lens) &&
	       (!m->n_no_crc || m->n_no_crc == m->n_key_lens) &&
	       (!m->n_attributes || m->n_attributes == m->n_key_lens) &&
	       (!m->n_soft_pin_ms || m->n_soft_pin_ms == m->n_key_lens) &&
	       (!m->n_group || m->n_group == m->n_key_lens) &&
	       (!m->n_tenant || m->n_tenant == m->n_key_lens) &&
	       m->n_address == n && m->n_length == n && m->n_crc == n;
}
