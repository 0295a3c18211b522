#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lib.sh - what cases share: failing, and waiting for what another host says or sends

# What a case leaves running would keep its machine up.
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

# A setting of engines for cases that are not about a link that is gone. Emulated
# machines answer later than the usual 67 ms, most of all where others are at work or a
# message is of many packets. rxe then sends all of it again, which makes answers later
# still: a transfer may stand still by that for ever. A second is enough.
# shellcheck disable=SC2034 # cases use it
patient=verbs.timeout=18

fail()
{
	echo "FAILED: $*"
	exit 1
}

# stretched SECONDS - of a quiet machine: how many that are here
stretched()
{
	echo $(($1 * SLOW / 100))
}

# within SECONDS COMMAND... - try until it succeeds; seconds of a quiet machine, and
# ten tries, since this one may have become slower since it began
within()
{
	local seconds until_s tries=0
	seconds=$(stretched "$1")
	shift
	until_s=$((SECONDS + seconds))
	until "$@"; do
		((++tries < 10 || SECONDS < until_s)) ||
			fail "not within $seconds s: $*"
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

received_by()
{
	cat "/sys/class/net/$1/statistics/rx_bytes"
}

has_received()
{
	[ "$(received_by "$1")" -ge "$2" ]
}

# await_received INTERFACE BYTES - until so many more have come by it
await_received()
{
	within 60 has_received "$1" $(($(received_by "$1") + $2))
}

no_queue_pairs()
{
	! rdma resource show qp link "$1" | grep -q "type RC"
}

# packets_sent NIC
packets_sent()
{
	cat "/sys/class/net/eth$1/statistics/tx_packets"
}

# is_still NIC - whether it has sent nothing since the last look
is_still()
{
	local before=${sent_before:-}

	sent_before=$(packets_sent "$1")
	[ "$before" = "$sent_before" ]
}

# pull_out NIC - it sends nothing, its link goes, then itself; ends when nobody has
# it open any more. Linux 6.1 does not let go of a queue pair whose packets the NIC
# still has (rxe keeps a reference), waits for a while, and then frees what they
# point to: hence not before they are gone, and its queue pairs. `rdma link del`
# shows less: the device stays for all who have it open.
pull_out()
{
	tc qdisc replace dev "eth$1" root netem loss 100%
	within 60 is_still "$1"
	ip link set "eth$1" down
	within 60 no_queue_pairs "rxe$1"
	echo 1 >"$(readlink -f "/sys/class/net/eth$1/device/..")/remove"
}

# is_there NIC - whether the kernel sees it
is_there()
{
	[ "$(interface "$1")" ]
}

# plug_in NIC - as it was when the machine began
plug_in()
{
	echo 1 >/sys/bus/pci/rescan
	within 30 is_there "$1"
	[ "$(interface "$1")" = "eth$1" ] ||
		ip link set "$(interface "$1")" name "eth$1"
	bring_up "$1"
}

# end_transfer PID - of te-perf in the background, which says to $OUT/said
end_transfer()
{
	kill -INT "$1"
	wait "$1" || fail "te-perf ended with $?: $(cat "$OUT/said")"
}
