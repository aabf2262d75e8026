#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# otte bench --copy over the simulated GPU, whose folder is $CUDA_SIM: what is measured and how it is shown. Its rates
# mean nothing here.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

CUDA_SIM=$(realpath "${CUDA_SIM:-build/gcc/sim/cuda}")

bench() {
    LD_LIBRARY_PATH=$CUDA_SIM "$OTTE" bench --copy --rows 200 --rounds 2 --product-size 64 "$@"
}

test_all_parts_are_measured_and_are_json_as_well() {
    exits 0 bench --sizes 512,4K --json
    jq -e '(.points | length == 12) and (.submit | length == 3) and (.small | length == 8) and
        (.product | length == 6) and
        (.points | all(.single > 0 and .calls > 0 and .batch > 0 and .kernel > 0 and .auto > 0)) and
        (.points | map(select(.layout == "scattered" and .row_bytes == 4096)) | length == 2 and
            all(.by == "kernel" and .ctas == 2)) and
        (.points | map(select(.layout == "strided")) | length == 4 and all(.by == "dma" and .ctas == 0)) and
        .device == "simulated GPU" and .cuda == "13.0" and (.bars | length > 10)' "$scratch/out" >/dev/null ||
        fail "it said: $(cat "$scratch/out")"
}

test_a_table_is_for_people_and_the_report_for_programs() {
    exits 0 bench --sizes 2K --layouts scattered --directions to-host --parts points --note 'a note' \
        --report "$scratch/report"
    grep -q 'a note; simulated GPU, CUDA 13.0' "$scratch/out" || fail "it said: $(cat "$scratch/out")"
    grep -qE '^to-host +scattered +2 KiB' "$scratch/out" || fail "it said: $(cat "$scratch/out")"
    jq -e '(.points | length == 1) and .note == "a note" and .submit == []' "$scratch/report" >/dev/null ||
        fail "the report says: $(cat "$scratch/report")"
    exits 5 bench --parts submit --report "$scratch/no/such" && says "$scratch/no/such"
}

test_a_bar_that_is_missed_exits_with_7() {
    # Nothing of this machine is done on two multiprocessors' worth of zero-copy.
    exits 7 bench --sizes 64K --layouts scattered --parts points --check
    says 'a bar is missed'
    grep -q MISSED "$scratch/out" || fail "it said: $(cat "$scratch/out")"
}

test_what_is_wrong_is_named() {
    exits 1 bench --layouts diagonal && says diagonal
    exits 1 bench --directions up && says --directions
    exits 1 bench --parts all && says --parts
    exits 1 bench --product-size 100 && says 64
    exits 1 bench --rows 0 && says --rows
    exits 1 bench --batch 4 && says batch
    exits 1 bench extra && says extra
    exits 5 bench --device 7 && says 'CUDA_ERROR_INVALID_DEVICE'
    exits 0 bench --help
    grep -q -- --product-size "$scratch/out" || fail "it said: $(cat "$scratch/out")"
}

test_a_calibration_is_kept_and_copies_go_by_it() {
    export LD_LIBRARY_PATH=$CUDA_SIM XDG_CACHE_HOME=$scratch/cache
    exits 0 "$OTTE" calibrate --rows 64 --rounds 1 --output "$scratch/table"
    jq -e '.device == "simulated GPU" and .driver == 13000 and (.rows | length > 0) and
        (.rows[-1] | has("bytes") | not) and (.rows | all(.to_device > 0 and .to_host > 0))' "$scratch/table" \
        >/dev/null || fail "it says: $(cat "$scratch/table")"
    mkdir -p "$XDG_CACHE_HOME/otte"
    jq '.rows = [{ to_device: 7, to_host: 9 }] | del(.long_bytes)' "$scratch/table" \
        >"$XDG_CACHE_HOME/otte/copy-simulated-GPU.json"
    exits 0 bench --rows 512 --sizes 4K --layouts scattered --parts points --json
    jq -e '.points | map(.ctas) == [7, 9]' "$scratch/out" >/dev/null || fail "it said: $(cat "$scratch/out")"
    echo nonsense >"$XDG_CACHE_HOME/otte/copy-simulated-GPU.json"
    exits 0 bench --rows 512 --sizes 4K --layouts scattered --parts points --json
    says 'copy-simulated-GPU.json: not used'
    exits 0 "$OTTE" calibrate --rows 64 --rounds 1 --json --output "$scratch/table"
    jq -e '.measured | length > 48' "$scratch/out" >/dev/null || fail "it said: $(cat "$scratch/out")"
    exits 0 "$OTTE" calibrate --rows 64 --rounds 1 --output -
    jq -e .rows "$scratch/out" >/dev/null || fail "it said: $(cat "$scratch/out")"
    exits 5 "$OTTE" calibrate --rows 64 --rounds 1 --output "$scratch/no/such" && says "$scratch/no/such"
    exits 5 "$OTTE" calibrate --device 9 && says CUDA_ERROR_INVALID_DEVICE
    exits 1 "$OTTE" calibrate --rounds 0 && says --rounds
    exits 1 "$OTTE" calibrate extra && says extra
}

test_without_the_library_it_is_named() {
    CUDA_SIM=/nonexistent
    exits 5 bench --parts submit
    says libcuda.so.1
}

run_tests
