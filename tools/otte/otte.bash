# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# bash completion for otte. Options come from the program's own help, so that the two agree.

_otte_options() {
    "$@" --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-zA-Z][a-z0-9-]*' | tr -d ' ,' |
        sort -u
}

_otte() {
    local program=$1 word=$2 previous=$3
    local command=${COMP_WORDS[1]}

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W 'serve pull push ls stats bench calibrate replay topo
            --help --version' -- "$word")
        return
    fi
    case $previous in
    --layouts) mapfile -t COMPREPLY < <(compgen -W 'contiguous strided scattered' -- "$word") ;;
    --directions) mapfile -t COMPREPLY < <(compgen -W 'to-device to-host' -- "$word") ;;
    --parts) mapfile -t COMPREPLY < <(compgen -W 'points submit small product' -- "$word") ;;
    --op) mapfile -t COMPREPLY < <(compgen -W 'read write both' -- "$word") ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W 'error warning info debug' -- "$word") ;;
    --congestion)
        mapfile -t COMPREPLY < <(compgen -W \
            "$(cat /proc/sys/net/ipv4/tcp_available_congestion_control 2>/dev/null)" -- "$word")
        ;;
    --config | --key-file | --file | --port-file | --report | --write | --xml | -o | --output)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        ;;
    *)
        if [[ $word == -* ]]; then
            local asked=("$program" ${command:+"$command"})
            [[ " ${COMP_WORDS[*]} " != *' --copy '* ]] || asked+=(--copy)
            mapfile -t COMPREPLY < <(compgen -W "$(_otte_options "${asked[@]}")" -- "$word")
        elif [ "$command" = push ] || [ "$command" = replay ]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
        ;;
    esac
}

complete -F _otte otte
