#!/usr/bin/env bash
# scripts/compare_references: the papers' formulas keep what Pith keeps of the built-in model's text. Exit code 77: skipped, no PyTorch.
#   compare_references_script_test.sh PATH/TO/scripts/compare_references PATH/TO/pith
set -euo pipefail
python=
for one in python3 /usr/bin/python3; do  # Debian's package is for its own
  if "$one" -c 'import torch, numpy' 2>/dev/null; then python=$one; break; fi
done
[ -n "$python" ] || { echo "skipped: no PyTorch"; exit 77; }

wrong() { echo "FAILED: $*" >&2; exit 1; }
compare() { # compare CODE OPTIONS…: exits so; what it says lies in $said
  local code=0
  said=$("$python" "$script" --pith "$pith" "${@:2}" 2>&1) || code=$?
  [ $code = "$1" ] || wrong "exit code $code, not $1: $said"
}
script=$1 pith=$2 said=

compare 0
for policy in snapkv+caote snapkv+fastcaote tova+caote cake lava novelty laprox compactor kvzip; do
  grep -qF -- "$policy" <<<"$said" || wrong "no row of $policy: $said"
done
compare 1 --policy laprox --least 1.01  # nothing agrees so well
grep -qF "1 of 1 policies" <<<"$said" || wrong "$said"
compare 2 --budget 32
grep -qF -- "--budget 32 leaves nothing" <<<"$said" || wrong "$said"
compare 2 --policy nobody
grep -qF -- "--policy nobody" <<<"$said" || wrong "$said"
