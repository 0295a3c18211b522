/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.h - a backend that does what a test tells it to
 *
 * Moves bytes between engines of this process, over two rails, "a" and "b",
 * of devices at 127.0.0.1 and 127.0.0.2, and a third one of another backend
 * that is less preferred, "spare/c".
 * The knobs below make it stall, break, refuse and answer late; they may be
 * turned at any time. A write that was in flight when its endpoint broke
 * leaves a ghost: other bytes, that land at the last moment at which they
 * may, just before the target's half is dropped or closed.
 */
#ifndef TESTS_UNIT_TE_FAKE_H
#define TESTS_UNIT_TE_FAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define FAKE_GHOST 0xee

struct fake_knobs {
	_Atomic bool stall;      /* slices are taken, and nothing happens */
	_Atomic bool hold_drop;  /* drop() is confirmed once it is false */
	_Atomic bool hold_pins;  /* what is touched stays pinned */
	_Atomic bool hold_flush; /* flush() is over once it is false */
	_Atomic bool hold_open;  /* a target's half opens once it is false */
	/* A bit for each device: 0 is that of "a"; so "rail" below, too. */
	_Atomic unsigned int dead;   /* connects and posts fail */
	_Atomic unsigned int quiet;  /* slices are taken, and nothing happens */
	_Atomic unsigned int hang;   /* connects never end */
	_Atomic unsigned int lone;   /* they match no rail of a peer */
	_Atomic unsigned int gone;   /* progress() fails */
	_Atomic unsigned int unable; /* slices end with -EOPNOTSUPP */
	_Atomic int
		break_after;    /* slices until an endpoint breaks; -1: never */
	_Atomic int break_rail; /* only of this rail; -1: of any */
	_Atomic int down_rail;  /* this one has no link; -1: none */
	_Atomic int dead_err;   /* what connects of dead ones fail with */
	_Atomic uint64_t only_a_at; /* a region there is reached by "a" alone */
	_Atomic uint64_t not_c_at;  /* a region there is not reached by "c" */
	/*
	 * Bytes of pieces of which each of the rails that share a region has
	 * every n-th; 0: they have all of it. Regions that are added meanwhile.
	 */
	_Atomic uint64_t piece;
	_Atomic uint64_t refuse_at; /* what touches it: -EFAULT; 0: nothing */
	_Atomic uint64_t fail_at;   /* the same: -EIO, and leaves a ghost */
	_Atomic int refuse_connects, fail_posts, busy; /* that many times */
	_Atomic int
		lose_targets;  /* so many halves of targets end by themselves */
	_Atomic int lose_rail; /* only of this rail; -1: of any */
	_Atomic uint64_t timer_ms;              /* of each rail; 0: none */
	_Atomic unsigned int timed_out;         /* timers that ended */
	_Atomic unsigned int timed_out_closing; /* of engines that end */
	_Atomic unsigned int done[3];           /* slices, per device */
	_Atomic unsigned int astray;   /* slices where a rail has no key */
	_Atomic unsigned int ghosts;   /* that landed */
	_Atomic unsigned int flushing; /* that are held */
	_Atomic unsigned int opening;  /* that are held */
};

extern struct fake_knobs fake;

/* All knobs to "works". */
void fake_reset(void);
/* Make both sides look again, after a knob was turned. */
void fake_wake(void);

#endif
