# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# bash completion for ottectl. Commands and options come from the program's own help, so that they agree.

_ottectl_options() {
    "$1" ${2:+"$2"} --help 2>/dev/null | grep -oE -- '(^|[ ,])--?[a-zA-Z][a-z0-9-]*' | tr -d ' ,' |
        sort -u
}

# Ids, or names, of what there is now and the user may see.
_ottectl_known() {
    "$1" "$2" --json 2>/dev/null | sed -nE "s/^ {6}\"$3\": \"?([^\",]*)\"?,?\$/\\1/p"
}

_ottectl_settings() {
    local level resource
    for level in module cgroup user client; do
        for resource in clients regions registered_bytes pinned_bytes lent_bytes loans retained_bytes holds; do
            printf '%s.%s=\n' "$level" "$resource"
        done
    done
}

_ottectl() {
    local program=$1 word=$2 previous=$3 words=
    local command=${COMP_WORDS[1]}

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$("$program" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
            --help --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        return
    fi
    case $previous in
    --release) words=$(_ottectl_known "$program" retained id) ;;
    --client) words=$(_ottectl_known "$program" clients id) ;;
    --pattern) words=high,medium,low ;;
    --file | --output | -o)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    limits) words='get set apply' ;;
    domains) words='list create set delete' ;;
    *)
        if [ "$command" = limits ] && [ "${COMP_WORDS[2]}" = set ]; then
            words=$(_ottectl_settings)
        elif [ "$command" = domains ] && [ "$COMP_CWORD" -eq 3 ]; then
            words=$(_ottectl_known "$program" domains name)
        fi
        ;;
    esac
    [[ $word != -* ]] || words=$(_ottectl_options "$program" "$command")
    [[ $words != *=* ]] || compopt -o nospace 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _ottectl ottectl
