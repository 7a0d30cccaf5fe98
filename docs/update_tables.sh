#!/usr/bin/env bash
# Writes the tables of the documentation with the program itself. Between
#   <!-- kvcost table results/quick.json -->
#   <!-- end -->
# stands what that command prints, in a fence (markdown tables without one); likewise for
#   <!-- bench/peers.py --table results/speed.json -->
# Nothing else in a file is touched.
#   docs/update_tables.sh [--check] [FILE...]     default: README.md and docs/*.md
# --check writes nothing and ends with 1 if a table is not what the command prints. KVCOST: the program to call.
set -euo pipefail
shopt -s extglob
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
kvcost=${KVCOST:-$root/kvcost}

fail() { printf 'update_tables: %s\n' "$1" >&2; exit 2; }

# What the command $1 prints, its words quoted as in a shell but not expanded.
output_of() {
  local words
  mapfile -t words < <(printf '%s\n' "$1" | xargs printf '%s\n')
  if [[ $1 == bench/+([a-z_]).py' --table '* ]]; then
    (cd -- "$root" && python3 "${words[@]}") || fail "'$1' failed"
    return
  fi
  words=("${words[@]:1}")
  case ${words[0]:-} in
    table | budget | list) ;;
    recall) [[ ${words[1]:-} == --table ]] || fail "'$1': only recall --table FILE is run" ;;
    *) fail "'$1': only table, budget, list and recall --table are run" ;;
  esac
  (cd -- "$root" && "$kvcost" "${words[@]}") || fail "'$1' failed"
}

renewed() { # file
  local line command='' number=0 text
  while IFS= read -r line || [[ -n $line ]]; do
    number=$((number + 1))
    if [[ $line == '<!-- end -->' ]]; then
      [[ -n $command ]] || fail "$1:$number: an end without a beginning"
      command=
    elif [[ $line == '<!-- kvcost '*' -->' || $line == '<!-- bench/'+([a-z_])'.py --table '*' -->' ]]; then
      [[ -z $command ]] || fail "$1:$number: a table begins before '<!-- end -->'"
      command=${line#<!-- }
      command=${command% -->}
      text=$(output_of "$command")
      printf '%s\n' "$line"
      if [[ $command == *'--format markdown'* ]]; then
        printf '\n%s\n\n' "$text"
      else
        printf '```text\n%s\n```\n' "$text"
      fi
      continue
    fi
    [[ -n $command ]] || printf '%s\n' "$line"
  done <"$1"
  [[ -z $command ]] || fail "$1: '<!-- $command -->' has no '<!-- end -->'"
}

check=
if [[ ${1:-} == --check ]]; then
  check=1
  shift
fi
if (($# == 0)); then
  shopt -s nullglob
  set -- "$root"/README.md "$root"/docs/*.md
fi
stale=0
for file in "$@"; do
  [[ -r $file ]] || fail "$file: cannot be read"
  new=$(mktemp)
  trap 'rm -f -- "$new"' EXIT
  renewed "$file" >"$new"
  if ! cmp -s -- "$file" "$new"; then
    if [[ -n $check ]]; then
      diff -u --label "$file" --label 'what kvcost prints' -- "$file" "$new" || true
      stale=1
    else
      cat -- "$new" >"$file"
      printf 'update_tables: %s renewed\n' "$file" >&2
    fi
  fi
  rm -f -- "$new"
done
exit "$stale"
