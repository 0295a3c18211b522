#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lib.sh - what cases share: failing, and waiting for what another host says

fail()
{
	echo "FAILED: $*"
	exit 1
}

# within SECONDS COMMAND... - try until it succeeds
within()
{
	local seconds=$1 until_s
	shift
	until_s=$((SECONDS + seconds))
	until "$@"; do
		((SECONDS < until_s)) || fail "not within $seconds s: $*"
		other_has_failed && fail "the other host has failed"
		sleep 0.1
	done
}

other_has_failed()
{
	[ -e "$OUT/code.$((3 - HOST))" ] &&
		[ "$(cat "$OUT/code.$((3 - HOST))")" != 0 ]
}

# tell WORD - to the other host; await WORD [SECONDS] - that it told
tell()
{
	touch "$OUT/said.$1"
}

await()
{
	within "${2:-60}" test -e "$OUT/said.$1"
}
