#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lib.sh - what cases share: failing, and waiting for what another host says or sends

# What a case leaves running would keep its machine up.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

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

# listens PORT - whether a program does, on this host
listens()
{
	ss -Htln sport = ":$1" | grep -q .
}

sent_by()
{
	cat "/sys/class/net/$1/statistics/tx_bytes"
}

# has_sent INTERFACE BYTES - whether so many have gone by it since the machine began
has_sent()
{
	[ "$(sent_by "$1")" -ge "$2" ]
}

# await_bytes INTERFACE BYTES - until so many more have gone by it
await_bytes()
{
	within 60 has_sent "$1" $(($(sent_by "$1") + $2))
}
