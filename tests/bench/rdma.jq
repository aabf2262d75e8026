# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The lines of rdma-guest.sh as one object: medians, what the rounds ranged over, the median of the rounds' ratios,
# and what the bar says of that. A ratio is of rates, or of latencies.

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;
def range_of: [min, max];

# In batches of 16. `who`: what of ours is put beside the floor; a bar is at least, but that of the latency, at most.
def floors: [
    { key: "read-64K", floor: "perftest", figure: "READ 64 KiB", beside: "ib_read_bw", unit: "B/s" },
    { key: "read-1M", floor: "perftest", figure: "READ 1 MiB", beside: "ib_read_bw", unit: "B/s" },
    { key: "write-64K", floor: "perftest", figure: "WRITE 64 KiB", beside: "ib_write_bw", unit: "B/s" },
    { key: "write-64K", floor: "send", figure: "WRITE 64 KiB", beside: "ib_send_bw", unit: "B/s" },
    { key: "write-1M", floor: "perftest", figure: "WRITE 1 MiB", beside: "ib_write_bw", unit: "B/s" },
    { key: "write-1M", floor: "send", figure: "WRITE 1 MiB", beside: "ib_send_bw", unit: "B/s" },
    { key: "latency-4K", floor: "perftest", figure: "READ 4 KiB, latency", beside: "ib_read_lat", unit: "ns" }
];
def bar_of($who):
    if .floor == "send" then null
    elif .unit == "B/s" then { otte: 0.85, lease: 0.95 }[$who]
    else { otte: null, lease: 1.3 }[$who] end;
def figures: [("otte", "lease") as $who | floors[]
    | . + { who: $who, mode: { otte: "one-shot", lease: "lease" }[$who], bar: bar_of($who) }];
def verdict:
    if .bar == null then "no bar"
    elif (if .unit == "ns" then .ratio <= .bar else .ratio >= .bar end) then "met" else "missed" end;

[inputs | split(" ") | select(length == 3) | { key: .[0], who: .[1], value: (.[2] | tonumber) }] as $lines
| def values($key; $who): [$lines[] | select(.key == $key and .who == $who) | .value];
{
    kernel: $kernel, cpus: $cpus, mtu: $mtu, depth: $depth, queue_pairs: 1, completion: $completion,
    ledger: (if $ledger == "" then "process" else $ledger end), rounds: $rounds,
    figures: [figures[] | . as $figure
        | values(.key; .floor) as $floor | values(.key; .who) as $otte
        | if ($floor | length) != $rounds or (($otte | length) != $rounds and $floors == "")
          then error("\($figure.figure) was not measured in every round") else . end
        | del(.key, .who) + { floor: ($floor | median), floor_range: ($floor | range_of) }
        | if $floors != "" then . + { verdict: "not judged" }
          else
            . + { otte: ($otte | median), otte_range: ($otte | range_of),
                  ratio: ([$floor, $otte] | transpose | map(.[1] / .[0]) | median) }
            | . + { verdict: verdict } end]
}
