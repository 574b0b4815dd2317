#!/usr/bin/env bash
# scripts/kvpress_answers as far as it goes without PyTorch and kvpress. Exit code 77: skipped, a tool is missing.
#   kvpress_answers_script_test.sh PATH/TO/scripts/kvpress_answers PATH/TO/pith
set -euo pipefail
pith=$2
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/scripts"  # away from a folder of packages that the repository may have
cp "$1" "$(dirname "$1")"/{kvpress_model,attention_matching}.py "$work/scripts/"
script=$work/scripts/kvpress_answers

wrong() { echo "FAILED: $*" >&2; exit 1; }
expect() { # expect CODE WORDS COMMAND…: exits so, and says the words on stderr
  local code=0
  "${@:3}" >/dev/null 2>"$work/err" || code=$?
  [ $code = "$1" ] || wrong "exit code $code, not $1: ${*:3}"
  grep -qF -- "$2" "$work/err" || wrong "nothing says '$2': $(cat "$work/err")"
}

# Pith knows every policy that is named as the one that keeps the same.
policies=$("$script" --list | awk '$2 != "-" && $2 != "full" { print $2 }' | paste -sd,)
[ "$(tr , '\n' <<<"$policies" | wc -l)" -ge 8 ] || wrong "few policies: $policies"
"$pith" eval world --tasks facts --context 1500 --samples 1 --policy "$policies" --budget 20% --write-samples "$work/samples.jsonl" --with-tokens
[ -s "$work/samples.jsonl" ] || wrong "no samples"

expect 2 "no press 'snap'" "$script" -m model.gguf --samples samples.jsonl -o out.jsonl --press snap
expect 2 "'20' is no share" "$script" -m model.gguf --samples samples.jsonl -o out.jsonl --kept 20
expect 2 "--samples is missing" "$script" -m model.gguf -o out.jsonl
if ! python3 -c 'import gguf, kvpress, torch, transformers' 2>/dev/null; then
  expect 3 "pip install kvpress==" "$script" --check
  [ "$(wc -l <"$work/err")" = 1 ] || wrong "more than a line: $(cat "$work/err")"
fi
