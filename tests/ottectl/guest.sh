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

# Id or pid of a scene. Emulated, each program that starts costs a fair part of a second: no jq here.
of() {
    local text
    text=$(<"$scratch/$1")
    [[ $text =~ \"$2\":\ ([0-9]+) ]] || fail "scene $1 has no $2: $text"
    printf '%s' "${BASH_REMATCH[1]}"
}

# { resource: value } of a folder of sysfs, as ottectl has it.
amounts() {
    local file value text=
    for file in "$sys/$1"/*; do
        value=$(<"$file")
        text+="${text:+,}\"${file##*/}\":${value/max/null}"
    done
    printf '{%s}' "$text"
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
    [ "$(<$sys/retained_records)" -eq "$1" ]
}

used() {
    [ "$(<"$sys/usage/$1")" -eq "$2" ]
}

release_all() {
    local id
    for id in $("$ctl" retained --json | sed -n 's/^      "id": \([0-9]*\),$/\1/p'); do
        "$ctl" retained --release "$id" >/dev/null
    done
}

# ---- status --------------------------------------------------------------------------------------

test_status_is_what_sysfs_says() {
    scene hold 0 4711
    exits 0 "$ctl" status --json
    is "[$(<$sys/revision),\"$(<$sys/load_id)\",$(<$sys/generation),false,1,4711]" \
        '[.revision, .load_id, .generation, .draining, .retained_records, .usage.retained_bytes]'
    is "[$(amounts usage),$(amounts limit_module)]" '[.usage, .limit]' -S
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
    is "[true,0,$(of loans client),$(of loans borrower)]" '[.consistent, .left_out, .clients[].id]'
    is "[$(of loans pid),\"actor\",0,false,null]" \
        ".clients[] | select(.id == $id) | [.pid, .comm, .uid, .fenced, .domain]"
    exits 0 "$ctl" clients --client "$id" --json
    is "[$id]" '[.clients[].id]'
    exits 0 "$ctl" clients --rows 1 --json
    is '[1,1]' '[(.clients | length), .left_out]'
    exits 0 "$ctl" clients --rows 1
    says '1 more are not shown'
}

test_regions_are_listed_with_their_loans() {
    scene loans
    exits 0 "$ctl" regions --json
    is "[$(of loans region),$(of loans client),16384,\"pages\",\"read\",\"live\",3,2,\"live\"]" \
        '.regions[] | [.id, .owner, .bytes, .backing, .access, .state, .loans, .exposed, .word]'
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
    is '["offered",null,"7700000000000000000000000000000000000000000000000000000000000000","0x9","exposed"]' \
        '[.loans[1].state, (.loans[2] | .borrower, .peer, .incarnation, .state)]'
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
    # How many there are is told to all; which is the oldest nobody knows who may not see them.
    exits 0 /t/actor as $user "$ctl" metrics --json
    is '[1,null]' '[.retained_records, .retained_oldest_ns]'
    exits 0 /t/actor as $user "$ctl" metrics
    grep -q otte_retained_oldest "$scratch/out" && fail "$(cat "$scratch/out")"
    exits 0 "$ctl" metrics --json
    is '[1,true]' '[.retained_records, .retained_oldest_ns > 0]'
}

test_a_user_sees_its_own_clients_and_records() {
    scene hold 0 100
    scene member $user default
    scene hold $user 200
    exits 0 /t/actor as $user "$ctl" clients --json
    is "[[$(of member client),$user],[$(of hold client),$user]]" '[.clients[] | [.id, .uid]]'
    exits 0 /t/actor as $user "$ctl" retained --json
    is "[[$(of hold hold),200]]" '[.retained[] | [.id, .bytes]]'
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
    is "[$region,\"region\",16384,$(of loans client),\"actor\",0,true]" \
        '.retained[0] | [.id, .kind, .bytes, .owner, .comm, .reason, .age_ns < 60e9]'
    is "[$(<"$sys/retained/$region/bytes"),$(<"$sys/retained/$region/owner")]" \
        '.retained[0] | [.bytes, .owner]'
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
    is "[$(of hold hold),300]" '[.released, .record.bytes]'
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

# ---- limits --------------------------------------------------------------------------------------

limit() {
    cat "$sys/limit_$1"
}

limit_is() {
    [ "$(limit "$1")" = "$2" ]
}

reload() {
    eventually rmmod otte
    insmod /lab/ko/otte.ko
}

test_limits_are_those_of_sysfs() {
    exits 0 "$ctl" limits get --json
    is "[$(amounts limit_module),$(amounts limit_cgroup),$(amounts limit_user),$(amounts limit_client)]" \
        '.limits | [.module, .cgroup, .user, .client]' -S
    is '{"module":{},"cgroup":{},"user":{},"client":{}}' .kept
    exits 0 "$ctl" limits
    grep -qE '^pinned_bytes +max +max +max +max$' "$scratch/out" || fail "$(cat "$scratch/out")"
}

# What the rule that is shipped has udev run: by its whole path, and without an environment.
test_limits_are_kept_and_set_again_at_each_load() {
    local holds run
    run=$(sed -n 's/^ACTION=="add", SUBSYSTEM=="misc", KERNEL=="otte", RUN+="\(.*\)"$/\1/p' /t/61-otte-limits.rules)
    [ -n "$run" ] || fail "the rule runs nothing"
    holds=$(limit user/holds)
    exits 0 "$ctl" limits set user.holds=3 client.lent_bytes=1G module.retained_bytes=max
    [ "$(limit user/holds)" = 3 ] || fail "not set"
    [ "$(limit client/lent_bytes)" = 1073741824 ] || fail "no units"
    scene refused $user
    is_of refused '[3,122]' '[.got, .error]'
    kill_scene "$actor"
    release_all
    exits 0 "$ctl" limits --json
    is '{"module":{"retained_bytes":null},"cgroup":{},"user":{"holds":3},"client":{"lent_bytes":1073741824}}' .kept
    exits 0 "$ctl" limits
    [ "$(sed -n 's!^/etc/otte/limits.json keeps !!p' "$scratch/out")" = \
        $'module.retained_bytes max\nuser.holds 3\nclient.lent_bytes 1 GiB' ] || fail "it says: $(cat "$scratch/out")"
    echo '{"user": {"holds": 9}}' >"$scratch/other"
    exits 0 "$ctl" limits get --file "$scratch/other"
    [ "$(grep ' keeps ' "$scratch/out")" = "$scratch/other keeps user.holds 9" ] ||
        fail "it says: $(cat "$scratch/out")"
    reload
    [ "$(limit user/holds)" = "$holds" ] || fail "the module remembers: $(limit user/holds)"
    # shellcheck disable=SC2086 # words are wanted
    exits 0 env -i $run
    limit_is user/holds 3 || fail "not set again: $(limit user/holds)"
    [ "$(limit client/lent_bytes)" = 1073741824 ] || fail "half of it"
    rm /etc/otte/limits.json
    reload
}

is_of() {
    local name=$1
    shift
    cp "$scratch/$name" "$scratch/out"
    is "$@"
}

test_limits_are_applied_by_hand() {
    local holds file=$scratch/limits.json
    holds=$(limit user/holds)
    echo '{"user": {"holds": 9}}' >"$file"
    exits 0 "$ctl" limits apply --file "$file"
    [ "$(cat "$scratch/out")" = 'applied: 1' ] || fail "$(cat "$scratch/out")"
    [ "$(limit user/holds)" = 9 ] || fail "not set"
    echo '{"user": {"holds": 5, "memory": 1}}' >"$file"
    exits 5 "$ctl" limits apply --file "$file"
    says 'user.memory: no such resource'
    [ "$(limit user/holds)" = 9 ] || fail "half of a wrong file"
    exits 5 "$ctl" limits apply --file "$scratch/none"
    says "$scratch/none"
    exits 0 "$ctl" limits apply
    [ "$(cat "$scratch/out")" = 'applied: 0' ] || fail "no file is no limits: $(cat "$scratch/out")"
    exits 0 "$ctl" limits set --volatile "user.holds=$holds"
    [ ! -e /etc/otte/limits.json ] || fail "--volatile wrote the file"
    exits 0 "$ctl" limits set --file-only --file "$file.2" user.holds=1
    [ "$(limit user/holds)" = "$holds" ] || fail "--file-only set it"
    [ "$(jq -c . "$file.2")" = '{"user":{"holds":1}}' ] || fail "$(cat "$file.2")"
}

test_limits_are_for_administrators_and_wrong_ones_change_nothing() {
    local holds
    holds=$(limit user/holds)
    exits 3 /t/actor as $user "$ctl" limits set --volatile user.holds=1
    says CAP_SYS_ADMIN
    exits 0 /t/actor as $user "$ctl" limits
    exits 1 "$ctl" limits set user.holds=1 user.memory=2
    says 'no such resource'
    exits 1 "$ctl" limits set user.holds=1 tenant.holds=2
    exits 1 "$ctl" limits set user.holds=few
    [ "$(limit user/holds)" = "$holds" ] || fail "changed"
}

# ---- domains -------------------------------------------------------------------------------------

test_domains_are_made_changed_joined_and_deleted() {
    exits 0 "$ctl" domains create lab --interval 5 --pattern high,low --mode 0100 --uid $user
    exits 0 "$ctl" domains --json
    is '["default",2000000,["high","medium","low"],true]' \
        '.domains[0] | [.name, .epoch.interval_ns, .epoch.slots, .slot.left_ns <= 2000000]'
    is "[\"lab\",5000000,[\"high\",\"low\"],\"0100\",$user,0,0]" \
        '.domains[1] | [.name, .epoch.interval_ns, .epoch.slots, .mode, .uid, .gid, .members]'
    scene member $user lab
    exits 0 "$ctl" domains --json
    is '[1,["actor0"]]' '.domains[1] | [.members, .nics]'
    exits 0 "$ctl" clients --client "$(of member client)" --json
    is "$(of member domain)" '.clients[0].domain'
    exits 8 "$ctl" domains delete lab
    says 'has members'
    kill_scene "$actor"
    exits 0 "$ctl" domains set lab --mode 0111
    exits 0 "$ctl" domains --json
    is '["0111",5000000,["high","low"]]' '.domains[1] | [.mode, .epoch.interval_ns, .epoch.slots]'
    exits 0 "$ctl" domains
    grep -qE "^ *[0-9]+ +lab +0 +0111 +$user +0 +5\.0 +high,low " "$scratch/out" ||
        fail "$(cat "$scratch/out")"
    exits 0 "$ctl" domains delete lab
    exits 0 "$ctl" domains --json
    is '["default"]' '[.domains[].name]'
}

test_a_change_of_a_domain_waits_for_the_last_one() {
    local try status=none
    exits 0 "$ctl" domains create slow --interval 1000
    # A change waits for one second at least. A host that takes longer for three programs gets another try.
    for try in $(seq 20); do
        "$ctl" domains set slow --interval 900 2>/dev/null || {
            sleep 0.1
            continue
        }
        "$ctl" domains --json >"$scratch/listed" || fail "no list"
        "$ctl" domains set slow --interval 1000 >/dev/null 2>"$scratch/err"
        status=$?
        [ "$status" -eq 0 ] || break
    done
    [ "$status" -eq 8 ] || fail "status $status in try $try"
    says 'not in force yet'
    # It was listed before the refusal, thus before it came into force.
    mv "$scratch/listed" "$scratch/out"
    is 900000000 '.domains[1].pending.interval_ns'
    exits 0 "$ctl" domains delete slow
}

test_domains_that_cannot_be_are_refused_by_name() {
    exits 6 "$ctl" domains delete nothing
    says 'no domain "nothing"'
    exits 6 "$ctl" domains set nothing --interval 3
    exits 8 "$ctl" domains create default
    says 'already'
    exits 3 "$ctl" domains delete default
    exits 8 "$ctl" domains create odd --pattern high,high
    says 'out of range'
    exits 8 "$ctl" domains create 'a/b'
    exits 1 "$ctl" domains create odd --pattern low,lowest
    exits 1 "$ctl" domains create this-name-is-longer-than-any-domain-has
    exits 3 /t/actor as $user "$ctl" domains create mine
    says 'group otte'
    exits 0 /t/actor as $user "$ctl" domains --json
    is '["default"]' '[.domains[].name]'
}

# ---- drain ---------------------------------------------------------------------------------------

test_drain_of_an_idle_module_is_safe_and_unloading_works() {
    exits 0 "$ctl" drain
    [ "$(cat "$scratch/out")" = 'safe to unload: rmmod otte' ] || fail "$(cat "$scratch/out")"
    [ "$(cat $sys/draining)" = 1 ] || fail "not draining"
    rmmod otte || fail "it was not"
    insmod /lab/ko/otte.ko
    [ "$(cat $sys/draining)" = 0 ] || fail "still draining"
}

test_drain_tells_what_keeps_the_module() {
    scene hold 0 5000
    exits 7 unshare -n "$ctl" drain --timeout 0
    says "the host's network namespace"
    grep -q 'not safe to unload' "$scratch/out" || fail "$(cat "$scratch/out")"
    exits 7 "$ctl" drain --timeout 0.3 --json
    is "[true,false,5000,1,1,$(</sys/module/otte/refcnt)]" \
        '[.draining, .safe, .usage.retained_bytes, .usage.clients, .usage.holds, .references]'
    is "[[$(of hold client)],[$(of hold hold)]]" '[[.clients[].id], [.retained[].id]]'
    exits 7 "$ctl" drain --timeout 0
    grep -q "client $(of hold client): process $(of hold pid), actor, user 0" "$scratch/out" ||
        fail "$(cat "$scratch/out")"
    exits 1 /t/actor hold 0 1
    says 'shutdown'
    exits 8 "$ctl" domains create late
    says 'ottectl drain --undo'
    exits 0 "$ctl" drain --undo
    [ "$(cat $sys/draining)" = 0 ] || fail "still draining"
    scene member 0 default
}

test_a_name_cannot_speak_to_the_terminal() {
    scene hold 0 1 $'a\e[2Jb'
    exits 7 "$ctl" drain --timeout 0
    grep -qF 'a\x1b[2Jb, user 0' "$scratch/out" || fail "$(cat -v "$scratch/out")"
    ! grep -qF $'\e' "$scratch/out" || fail "$(cat -v "$scratch/out")"
    exits 0 "$ctl" clients
    grep -qF 'a\x1b[2Jb' "$scratch/out" || fail "$(cat -v "$scratch/out")"
    exits 0 "$ctl" drain --undo
}

test_an_open_device_keeps_the_module() {
    scene open
    exits 7 "$ctl" drain --timeout 0.2 --json
    is '[0,1]' '[([.usage[]] | add), .references]'
    ! rmmod otte 2>/dev/null || fail "it could be unloaded"
    exits 7 "$ctl" drain --timeout 0
    grep -q 'fuser -v /dev/otte' "$scratch/out" || fail "$(cat "$scratch/out")"
    exits 0 "$ctl" drain --undo
}

test_drain_waits_for_the_last_one() {
    scene member 0 default
    (sleep 1 && kill -KILL "$actor") &
    exits 0 "$ctl" drain --timeout 30 --json
    is true .safe
    exits 0 "$ctl" drain --undo
}

test_drain_is_for_administrators() {
    exits 3 /t/actor as $user "$ctl" drain --timeout 0
    says CAP_SYS_ADMIN
    [ "$(cat $sys/draining)" = 0 ] || fail "draining"
}

# ---- monitor -------------------------------------------------------------------------------------

# Some socket of generic netlink is in a group; there is no other one here.
listening() {
    awk '$2 == 16 && $4 !~ /^0+$/ { found = 1 } END { exit !found }' /proc/net/netlink
}

# Starts it, and waits until it has joined the group.
monitor() {
    "$ctl" monitor "$@" >"$scratch/notices" 2>"$scratch/monitor.err" &
    server=$!
    eventually listening
}

ends() {
    local wanted=$1 got
    wait "$server"
    got=$?
    server=
    [ "$got" -eq "$wanted" ] || fail "monitor ends with $got: $(cat "$scratch/monitor.err")"
}

test_monitor_shows_notices_as_they_come() {
    monitor --json --count 4
    scene hold 0 77
    kill_scene "$actor"
    eventually retained_records 1
    "$ctl" retained --release "$(of hold hold)" >/dev/null
    ends 0
    mv "$scratch/notices" "$scratch/out"
    is '["client_new","retained","client_gone","released"]' '[.[].notice]' -s
    is "[$(of hold client),$(of hold hold),$(of hold client),$(of hold hold)]" '[.[].id]' -s
    is true '[.[].generation] | . == sort' -s
}

test_monitor_shows_who_was_refused_and_why() {
    local holds
    holds=$(limit client/holds)
    "$ctl" limits set --volatile client.holds=2
    monitor --json
    scene refused 0
    eventually grep -q quota "$scratch/notices"
    kill -INT "$server"
    ends 0
    "$ctl" limits set --volatile "client.holds=$holds"
    mv "$scratch/notices" "$scratch/out"
    is "[$(of refused client),\"client\",$(of refused client),\"holds\",2,2,1]" \
        '.[] | select(.notice == "quota") | [.id, .level, .key, .resource, .usage, .limit, .requested]' -s
}

test_monitor_is_for_administrators() {
    exits 3 /t/actor as $user "$ctl" monitor
    says 'CAP_SYS_ADMIN'
}

test_monitor_ends_when_the_module_goes() {
    monitor
    reload
    ends 2
    grep -q 'the module was unloaded' "$scratch/monitor.err" || fail "$(cat "$scratch/monitor.err")"
}

# ---- top, metrics --------------------------------------------------------------------------------

test_top_shows_who_lent_and_borrowed() {
    scene loans
    exits 0 "$ctl" top --json --count 2 --interval 0.1
    [ "$(wc -l <"$scratch/out")" -eq 2 ] || fail "$(wc -l <"$scratch/out") frames"
    head -n 1 "$scratch/out" >"$scratch/frame" && mv "$scratch/frame" "$scratch/out"
    is "[[$(of loans client),16384,8392,0,3],[$(of loans borrower),0,0,8192,0]]" \
        '[.clients[] | [.id, .registered_bytes, .lent_bytes, .borrowed_bytes, .loans]]'
    is '[8392,true]' '[.status.usage.lent_bytes, .domains[0].slot.index < 3]'
}

test_top_draws_bars_of_what_is_limited() {
    scene loans
    "$ctl" limits set --volatile module.lent_bytes=16784
    exits 0 "$ctl" top --count 1
    "$ctl" limits set --volatile module.lent_bytes=max
    grep -qF 'lent_bytes        [##########..........]  50 % 8.2 KiB of 16.4 KiB' "$scratch/out" ||
        fail "$(cat "$scratch/out")"
    grep -qE '^domain default: 0 members, slot [123] of 3 \((high|medium|low)\), [0-9.]+ ms left$' \
        "$scratch/out" || fail "$(cat "$scratch/out")"
    ! grep -q "$(printf '\033')" "$scratch/out" || fail "colours into a file"
}

# On a terminal there is another screen, which is left before anything is said.
test_top_says_on_the_terminal_that_the_module_went() {
    local said
    /t/actor terminal "$ctl" top --interval 0.1 >"$scratch/screen" 2>&1 &
    server=$!
    eventually grep -q 'admission open' "$scratch/screen"
    reload
    wait "$server"
    said=$?
    server=
    [ "$said" -eq 2 ] || fail "top ends with $said: $(cat -v "$scratch/screen")"
    said=$(<"$scratch/screen")
    [[ ${said##*$'\e[?1049l'} == *'the module was unloaded'* ]] || fail "$(tail -n 3 "$scratch/screen" | cat -v)"
}

test_top_shows_a_user_its_own() {
    scene hold 0 100
    scene member $user default
    exits 0 /t/actor as $user "$ctl" top --json --count 1
    is "[$(of member client)]" '[.clients[].id]'
}

# value SERIES: of the metrics that were printed last
value() {
    awk -v series="$1" '$1 == series { print $2 }' "$scratch/out"
}

test_metrics_are_openmetrics_and_what_sysfs_says() {
    scene hold $user 4711
    exits 0 "$ctl" metrics --accounts
    awk -f /t/openmetrics.awk "$scratch/out" >"$scratch/wrong" || fail "$(cat "$scratch/wrong")"
    [ "$(value otte_up)" = 1 ] || fail "not up"
    [ "$(value 'otte_usage_bytes{resource="retained"}')" = "$(cat $sys/usage/retained_bytes)" ] || fail "usage"
    [ "$(value 'otte_usage{resource="clients"}')" = 1 ] || fail "clients"
    [ "$(value 'otte_limit{resource="holds"}')" = "$(limit module/holds)" ] || fail "limit"
    [ "$(value "otte_account_usage_bytes{level=\"user\",key=\"$user\",resource=\"retained\"}")" = 4711 ] ||
        fail "$(cat "$scratch/out")"
    [ "$(value otte_retained_records)" = 1 ] || fail "records"
    [ "$(value 'otte_domain_members{domain="default"}')" = 0 ] || fail "domains"
    [ "$(value otte_draining)" = 0 ] || fail "draining"
    exits 0 "$ctl" metrics -o "$scratch/otte.prom"
    awk -f /t/openmetrics.awk "$scratch/otte.prom" || fail "the file"
    [ "$(echo "$scratch"/otte.prom*)" = "$scratch/otte.prom" ] || fail "left over: $(echo "$scratch"/*)"
    exits 5 "$ctl" metrics -o "$scratch/no/otte.prom"
    exits 0 "$ctl" metrics --json
    is '[true,1,4711]' '[.up, .retained_records, .status.usage.retained_bytes]'
    exits 0 /t/actor as $user "$ctl" metrics --accounts
    awk -f /t/openmetrics.awk "$scratch/out" || fail "as a user"
}

# The check of the text refuses what is none.
test_metrics_that_are_wrong_are_seen() {
    local text
    for text in 'otte_up 1\n# EOF\n' '# TYPE a gauge\na 1\n' '# TYPE a gauge\na x\n# EOF\n' \
        '# TYPE a gauge\na 1\na 1\n# EOF\n' '# TYPE a gauge\na{b="c} 1\n# EOF\n' \
        '# TYPE a gauge\na 1\n# HELP a b\n# EOF\n' '# TYPE a gauge\n# UNIT a bytes\n# EOF\n' \
        '# TYPE a gauge\n\n# EOF\n' '# EOF\n# TYPE a gauge\n' '# TYPE a gauge\na{b="1",b="2"} 1\n# EOF\n' \
        '# TYPE a gauge\n# TYPE b gauge\n# TYPE a gauge\n# EOF\n' '# TYPE a info\na 1\n# EOF\n'; do
        # shellcheck disable=SC2059 # the text is a format
        printf "$text" >"$scratch/text"
        ! awk -f /t/openmetrics.awk "$scratch/text" >/dev/null || fail "taken: $text"
    done
}

# ---- the program ---------------------------------------------------------------------------------

test_every_command_has_help_and_refuses_what_it_does_not_know() {
    local command
    exits 0 "$ctl" --help
    mapfile -t commands < <(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$scratch/out")
    [ ${#commands[@]} -eq 11 ] || fail "${#commands[@]} commands"
    for command in "${commands[@]}"; do
        exits 0 "$ctl" "$command" --help
        grep -q "^Usage: ottectl $command" "$scratch/out" || fail "$command"
        grep -q -- --json "$scratch/out" || fail "$command has no --json"
        exits 1 "$ctl" "$command" --nonsense
        says "ottectl $command: unrecognized option"
        exits 1 "$ctl" "$command" nonsense words
    done
    exits 1 "$ctl" nonsense
    says 'unknown command "nonsense"'
    exits 0 "$ctl" --version
}

test_output_that_cannot_be_written_is_a_failure() {
    "$ctl" status >/dev/full 2>"$scratch/err"
    [ $? -eq 5 ] || fail "no failure"
    says 'standard output'
}

test_the_network_namespace_is_named_where_it_is_another() {
    exits 2 unshare -n "$ctl" clients
    says "the host's network namespace"
    exits 0 unshare -n "$ctl" limits
}

# ---- without the module --------------------------------------------------------------------------

test_zz_a_missing_module_is_named() {
    local command
    eventually rmmod otte
    for command in status clients regions loans retained limits domains drain monitor top 'domains create a'; do
        # shellcheck disable=SC2086 # words are wanted
        exits 2 "$ctl" $command
        says 'the module is not loaded: modprobe otte'
    done
    exits 0 "$ctl" metrics
    [ "$(value otte_up)" = 0 ] || fail "$(cat "$scratch/out")"
    awk -f /t/openmetrics.awk "$scratch/out" || fail "metrics"
    insmod /lab/ko/otte.ko
    exits 0 "$ctl" status
}

# Each test in its own subshell, with its own scenes; what a failed one left behind is not the next one's.
run_one() {
    scratch=$(mktemp -d /tmp/otte-ctl.XXXXXX)
    chmod 755 "$scratch"
    actors=() server=
    trap end_scenes EXIT
    rm -f /etc/otte/limits.json
    for domain in lab slow; do
        "$ctl" domains delete $domain 2>/dev/null
    done
    # A borrower ends with its lender, and some moments later.
    retained_records 0 || release_all
    eventually used clients 0
    "$1"
}

mkdir -p /etc
run_tests
