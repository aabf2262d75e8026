# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The lines of rdma-guest.sh as one object: medians, what the rounds ranged over, the median of the rounds' ratios,
# and what the bar says of that. A ratio is of rates, or of latencies.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def range_of: [min, max];

# One-shot in batches of 16. The other bars are of leases, which the library does not have.
def figures: [
    { key: "read-64K", floor: "perftest", figure: "READ 64 KiB", beside: "ib_read_bw", unit: "B/s", bar: 0.85 },
    { key: "read-1M", floor: "perftest", figure: "READ 1 MiB", beside: "ib_read_bw", unit: "B/s", bar: 0.85 },
    { key: "write-64K", floor: "perftest", figure: "WRITE 64 KiB", beside: "ib_write_bw", unit: "B/s", bar: 0.85 },
    { key: "write-64K", floor: "send", figure: "WRITE 64 KiB", beside: "ib_send_bw", unit: "B/s", bar: null },
    { key: "write-1M", floor: "perftest", figure: "WRITE 1 MiB", beside: "ib_write_bw", unit: "B/s", bar: 0.85 },
    { key: "write-1M", floor: "send", figure: "WRITE 1 MiB", beside: "ib_send_bw", unit: "B/s", bar: null },
    { key: "latency-4K", floor: "perftest", figure: "READ 4 KiB, latency", beside: "ib_read_lat", unit: "ns", bar: null }
];

[inputs | split(" ") | select(length == 3) | { key: .[0], who: .[1], value: (.[2] | tonumber) }] as $lines
| def values($key; $who): [$lines[] | select(.key == $key and .who == $who) | .value];
{
    kernel: $kernel, cpus: $cpus, mtu: $mtu, depth: $depth, queue_pairs: 1, completion: $completion,
    mode: "one-shot", ledger: (if $ledger == "" then "process" else $ledger end), rounds: $rounds,
    figures: [figures[] | . as $figure
        | values(.key; .floor) as $floor | values(.key; "otte") as $otte
        | if ($floor | length) != $rounds or (($otte | length) != $rounds and $floors == "")
          then error("\($figure.figure) was not measured in every round") else . end
        | del(.key) + { floor: ($floor | median), floor_range: ($floor | range_of) }
        | if $floors != "" then . + { verdict: "not judged" }
          else
            . + { otte: ($otte | median), otte_range: ($otte | range_of),
                  ratio: ([$floor, $otte] | transpose | map(.[1] / .[0]) | median) }
            | . + { verdict: (if .bar == null then "no bar" elif .ratio >= .bar then "met" else "missed" end) } end]
}
