#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# ottectl beside real clients, in a guest whose module is loaded: every value that it prints is compared
# with what the scene (tests/ottectl/actor.c) has made, or with what sysfs says.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

sys=/sys/class/misc/otte
ctl=$OTTE
user=1001

# scene NAME ARGUMENTS...: a client; its answer is $scratch/NAME, its process $actor. It ends with the test.
scene() {
    local name=$1
    /t/actor "$@" >"$scratch/$name.making" 2>"$scratch/$name.err" &
    actor=$!
    for _ in $(seq 200); do
        [ ! -s "$scratch/$name.making" ] || break
        kill -0 "$actor" 2>/dev/null || fail "no scene $name: $(cat "$scratch/$name.err")"
        sleep 0.05
    done
    mv "$scratch/$name.making" "$scratch/$name"
    actors+=("$actor")
}

# Id or pid of a scene.
of() {
    jq -e ".$2" "$scratch/$1"
}

kill_scene() {
    kill -KILL "$1"
    wait "$1" 2>/dev/null
}

end_scenes() {
    local pid
    for pid in "${actors[@]}"; do
        kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    end_test
}

# is WANTED FILTER [JQ-ARGUMENT...]: of the JSON that was printed last
is() {
    local wanted=$1 filter=$2 got
    shift 2
    got=$(jq -c "$@" "$filter" "$scratch/out") || fail "not JSON: $(head -c 300 "$scratch/out")"
    [ "$got" = "$wanted" ] || fail "$filter is $got, not $wanted"
}

# What is retained after a death appears when the dead one's memory is gone.
eventually() {
    for _ in $(seq 100); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    fail "never: $*"
}

retained_records() {
    [ "$(cat $sys/retained_records)" -eq "$1" ]
}

release_all() {
    local id
    for id in $("$ctl" retained --json | jq '.retained[].id'); do
        "$ctl" retained --release "$id" >/dev/null
    done
}

# ---- status --------------------------------------------------------------------------------------

test_status_is_what_sysfs_says() {
    local name
    scene hold 0 4711
    exits 0 "$ctl" status --json
    is "$(cat $sys/revision)" .revision
    is "\"$(cat $sys/load_id)\"" .load_id
    is "$(cat $sys/generation)" .generation
    is false .draining
    is 1 .retained_records
    is 4711 .usage.retained_bytes
    for name in "$sys"/usage/*; do
        name=${name##*/}
        is "$(cat "$sys/usage/$name")" ".usage.$name"
        is "$(sed 's/max/null/' "$sys/limit_module/$name")" ".limit.$name"
    done
    is 8 '.usage | length'
    exits 0 "$ctl" status
    grep -qE '^retained_bytes +4\.6 KiB +none$' "$scratch/out" || fail "$(cat "$scratch/out")"
    grep -q "^revision $(cat $sys/revision), load $(cat $sys/load_id), " "$scratch/out" || fail "head"
}

# ---- clients, regions, loans ---------------------------------------------------------------------

test_clients_are_listed_with_who_they_are() {
    local id
    scene loans
    id=$(of loans client)
    exits 0 "$ctl" clients --json
    is true .consistent
    is 0 .left_out
    is "[$(of loans client),$(of loans borrower)]" '[.clients[].id]'
    is "$(of loans pid)" ".clients[] | select(.id == $id) | .pid"
    is '"actor"' ".clients[] | select(.id == $id) | .comm"
    is false ".clients[] | select(.id == $id) | .fenced"
    is null ".clients[] | select(.id == $id) | .domain"
    exits 0 "$ctl" clients --client "$id" --json
    is "[$id]" '[.clients[].id]'
    exits 0 "$ctl" clients --rows 1 --json
    is 1 '.clients | length'
    is 1 .left_out
    exits 0 "$ctl" clients --rows 1
    says '1 more are not shown'
}

test_regions_are_listed_with_their_loans() {
    scene loans
    exits 0 "$ctl" regions --json
    is "[$(of loans region)]" '[.regions[].id]'
    is "[$(of loans client),16384,\"pages\",\"read\",\"live\",3,2,\"live\"]" \
        '.regions[0] | [.owner, .bytes, .backing, .access, .state, .loans, .exposed, .word]'
    exits 0 "$ctl" regions --client "$(of loans borrower)" --json
    is '[]' .regions
}

test_loans_are_listed_with_both_sides() {
    local loan offer remote
    scene loans
    loan=$(of loans loan) offer=$(of loans offer) remote=$(of loans remote)
    exits 0 "$ctl" loans --json
    is "[$loan,$offer,$remote]" '[.loans[].id]'
    is "[$(of loans client),$(of loans borrower),$(of loans region),4096,8192,null]" \
        ".loans[] | select(.id == $loan) | [.lender, .borrower, .region, .offset, .bytes, .peer]"
    is '["read","exposed","revocable",null]' \
        ".loans[] | select(.id == $loan) | [.direction, .state, .flags, .evidence]"
    is '"offered"' ".loans[] | select(.id == $offer) | .state"
    is '[null,"7700000000000000000000000000000000000000000000000000000000000000",9,"exposed"]' \
        ".loans[] | select(.id == $remote) | [.borrower, .peer, .incarnation, .state]"
    exits 0 "$ctl" loans --client "$(of loans borrower)" --json
    is "[$loan,$offer]" '[.loans[].id]'
    exits 0 "$ctl" loans
    grep -qE "^ *$loan +.* 8 KiB +read +exposed +revocable" "$scratch/out" || fail "$(cat "$scratch/out")"
}

test_other_users_see_what_is_theirs() {
    scene hold 0 100
    scene loans
    exits 0 /t/actor as $user "$ctl" clients --json
    is '[]' .clients
    exits 0 /t/actor as $user "$ctl" retained --json
    is '[]' .retained
    exits 0 /t/actor as $user "$ctl" loans --json
    is '[]' .loans
    exits 0 /t/actor as $user "$ctl" status --json
    is 100 .usage.retained_bytes
}

test_a_user_sees_its_own_clients_and_records() {
    scene hold 0 100
    scene member $user default
    scene hold $user 200
    exits 0 /t/actor as $user "$ctl" clients --json
    is "[$(of member client),$(of hold client)]" '[.clients[].id]'
    is "[$user]" '[.clients[].uid] | unique'
    exits 0 /t/actor as $user "$ctl" retained --json
    is "[$(of hold hold)]" '[.retained[].id]'
    exits 0 "$ctl" retained --json
    is '[100,200]' '[.retained[].bytes]'
}

# ---- retained ------------------------------------------------------------------------------------

test_what_a_dead_lender_leaves_is_listed_and_released() {
    local region
    scene loans
    region=$(of loans region)
    exits 0 "$ctl" retained --json
    is '[]' .retained
    kill_scene "$actor"
    eventually retained_records 1
    exits 0 "$ctl" retained --json
    is "[$region,\"region\",16384,$(of loans client),\"actor\",0]" \
        '.retained[0] | [.id, .kind, .bytes, .owner, .comm, .reason]'
    is true '.retained[0].age_ns < 60e9'
    is "$(cat "$sys/retained/$region/bytes")" '.retained[0].bytes'
    is "$(cat "$sys/retained/$region/owner")" '.retained[0].owner'
    exits 0 "$ctl" retained
    grep -qE "^ *$region +region +16 KiB .* actor +" "$scratch/out" || fail "$(cat "$scratch/out")"
    exits 0 "$ctl" retained --release "$region"
    [ "$(cat "$scratch/out")" = "released: $region" ] || fail "$(cat "$scratch/out")"
    exits 0 "$ctl" retained --json
    is '[]' .retained
    [ "$(cat $sys/usage/retained_bytes)" -eq 0 ] || fail "still charged"
}

test_release_is_for_administrators() {
    scene hold $user 300
    kill_scene "$actor"
    eventually retained_records 1
    exits 3 /t/actor as $user "$ctl" retained --release "$(of hold hold)"
    says CAP_SYS_ADMIN
    retained_records 1 || fail "it is gone"
    exits 0 "$ctl" retained --release "$(of hold hold)" --json
    is "$(of hold hold)" .released
    is 300 .record.bytes
    retained_records 0 || fail "it is still there"
}

test_release_says_what_it_cannot_release() {
    scene hold 0 10
    exits 8 "$ctl" retained --release "$(of hold hold)"
    says 'a hold of a living process'
    exits 6 "$ctl" retained --release 999999
    says 'no retained record 999999'
    retained_records 1 || fail "it is gone"
}

# ---- without the module --------------------------------------------------------------------------

test_zz_a_missing_module_is_named() {
    local command
    rmmod otte || fail "the module cannot be unloaded"
    for command in status clients regions loans retained; do
        exits 2 "$ctl" $command
        says 'the module is not loaded: modprobe otte'
    done
    insmod /lab/ko/otte.ko
    exits 0 "$ctl" status
}

# Each test in its own subshell, with its own scenes; what a failed one left behind is not the next one's.
run_one() {
    scratch=$(mktemp -d /tmp/otte-ctl.XXXXXX)
    chmod 755 "$scratch"
    actors=() server=
    trap end_scenes EXIT
    release_all
    "$1"
}

run_tests
