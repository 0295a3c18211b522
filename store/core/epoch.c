/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.c - lives of the master
 *
 * Generations are told apart by the life that gave them, so lives only grow:
 * ours began with the clock, which may have gone back since the life before.
 * Who joins or offers tells what he has seen. What was put in this life, under
 * whatever number, is newer than all that comes from others.
 */
#include "store/core/epoch.h"

#include <errno.h>

#include "base/mem.h"
#include "store/core/state.h"

#define EPOCHS_MAX UINT16_MAX

static uint16_t add_epoch(struct tes_core *core, uint64_t epoch)
{
	struct tes_epoch *grown;

	if (core->n_epochs > EPOCHS_MAX)
		return 0;
	grown = tei_realloc(core->epochs,
			    (core->n_epochs + 1) * sizeof(*grown));
	if (!grown)
		return 0;
	core->heap_bytes += sizeof(*grown);
	core->epochs = grown;
	core->epochs[core->n_epochs] = (struct tes_epoch){.number = epoch};
	return (uint16_t)core->n_epochs++;
}

uint16_t tes_core_epoch_index(struct tes_core *core, uint64_t epoch)
{
	for (size_t i = 1; i < core->n_epochs; i++)
		if (core->epochs[i].number == epoch)
			return (uint16_t)i;
	return epoch && epoch < INT64_MAX ? add_epoch(core, epoch) : 0;
}

void tes_core_epoch_exceed(struct tes_core *core, uint64_t epoch)
{
	uint16_t own;

	if (epoch <= core->config.epoch || epoch >= INT64_MAX - 1)
		return;
	own = tes_core_epoch_index(core, epoch + 1);
	if (!own)
		return;
	core->epochs[own].ours = true;
	core->own_epoch = own;
	core->config.epoch = epoch + 1;
}

int tes_core_epochs_init(struct tes_core *core)
{
	core->epochs = tei_malloc(2 * sizeof(*core->epochs));
	if (!core->epochs)
		return -ENOMEM;
	core->epochs[0] = (struct tes_epoch){.number = 0};
	core->epochs[1] = (struct tes_epoch){core->config.epoch, true};
	core->n_epochs = 2;
	core->own_epoch = 1;
	return 0;
}

uint64_t tes_core_epoch(const struct tes_core *core)
{
	return core->config.epoch;
}
