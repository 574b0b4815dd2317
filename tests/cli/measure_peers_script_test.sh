#!/usr/bin/env bash
# scripts/measure_peers with programs made here instead of the real ones: what is run how often, and what the table makes of it.
# Exit code 77: skipped, a tool is missing.
#   measure_peers_script_test.sh PATH/TO/scripts/measure_peers
set -euo pipefail
script=$1
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
touch "$work/model.gguf" "$log"

# Speeds are told by the arguments: Pith's 200 for prompts and 30 for generation; llama.cpp's by setting.
cat >"$work/pith" <<'PYTHON'
#!/usr/bin/env python3
import json, os, sys
if sys.argv[1] == "--version":
    print("pith 0.0.0")
    sys.exit()
words = sys.argv[1:]
if words[0] == "info":
    print(json.dumps({"weight_bytes_per_token": 10**9, "kv_bytes_per_token": 10**6}))
    sys.exit()
value = lambda name: words[words.index(name) + 1]
open(os.environ["LOG"], "a").write("pith " + " ".join(words) + "\n")
print(json.dumps({"rows": [{"prefill_tps": 200.0, "decode_tps": 33.0 if "--budget" in words else 30.0, "attention": "pith TEST"}]}))
PYTHON
cat >"$work/llama-bench" <<'PYTHON'
#!/usr/bin/env python3
import json, os, sys, time
words = sys.argv[1:]
if words == ["--help"]:
    sys.exit()
value = lambda name: words[words.index(name) + 1]
who = os.path.basename(sys.argv[0])
open(os.environ["LOG"], "a").write(f"{who} fa {value('-fa')} " + " ".join(words) + "\n")
if os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "breaks")) and who == "ik-bench":
    sys.exit("no such model")
if os.path.exists(os.path.join(os.path.dirname(sys.argv[0]), "sleeps")):
    open(os.path.join(os.path.dirname(sys.argv[0]), "sleeper"), "w").write(str(os.getpid()))
    time.sleep(1000)
print("load_backend: loaded CPU backend from /x/libggml-cpu-test.so", file=sys.stderr)
print("this is what a program says besides", file=sys.stderr)
on = value("-fa") == "1"
if value("-p") != "0":
    assert value("-p").startswith("128,"), "the weights are not touched before the prompt"
    tests = [{"avg_ts": 1000.0}, {"avg_ts": 100.0 if on else 80.0}]
else:
    tests = [{"avg_ts": 20.0 if on else 21.0}]
print(json.dumps([{**test, "build_commit": "abc", "build_number": 7} for test in tests]))
PYTHON
sed 's/100.0 if on else 80.0/150.0 if on else 149.0/' "$work/llama-bench" >"$work/ik-bench"
cat >"$work/memory" <<'SHELL'
#!/bin/sh
echo memory "$*" >>"$LOG"
echo '{"read_gb_per_s": 60}'
SHELL
chmod +x "$work/pith" "$work/llama-bench" "$work/ik-bench" "$work/memory"
# A package with mistral.rs's interface: words are tokens.
package=$work/packages/mistral.rs
mkdir -p "$package/mistralrs" "$package/mistralrs-9.9.dist-info"
printf 'Metadata-Version: 2.1\nName: mistralrs\nVersion: 9.9\n' >"$package/mistralrs-9.9.dist-info/METADATA"
cat >"$package/mistralrs/__init__.py" <<'PYTHON'
import os, types
print("noise on standard output")
WORDS = []
def Which(): pass
Which.GGUF = lambda quantized_model_id, quantized_filename: os.path.join(quantized_model_id, quantized_filename)
CompletionRequest = lambda **fields: types.SimpleNamespace(**fields)
class Runner:
    def __init__(self, which, max_seqs, prefix_cache_n, token_source):
        assert prefix_cache_n == 0 and os.path.isfile(which)
    def tokenize_text(self, text, special, thinking):
        start = len(WORDS)
        WORDS.extend(text.split())
        return list(range(start, len(WORDS)))
    def detokenize_text(self, ids, special): return " ".join(WORDS[i] for i in ids)
    def send_completion_request(self, request):
        n, made = len(request.prompt.split()), request.max_tokens
        open(os.environ["LOG"], "a").write(f"mistral.rs {n} {made}\n")
        return types.SimpleNamespace(usage=types.SimpleNamespace(prompt_tokens=n, completion_tokens=made, total_prompt_time_sec=n / 50, total_completion_time_sec=(made - 1) / 10))
PYTHON

export LOG=$log LLAMA_BENCH=$work/llama-bench
wrong() { echo "FAILED: $*" >&2; echo "--- out:" >&2; cat "$work/out" >&2; echo "--- said:" >&2; cat "$work/said" >&2; exit 1; }
rows=$work/rows.csv
run() { # run CODE ARGUMENTS…
  local code=0
  "$script" -m "$work/model.gguf" --pith "$work/pith" --ik-llama "$work/ik-bench" --packages "$work/packages" --memory "$work/memory" -t 2 -o "$rows" "${@:2}" >"$work/out" 2>"$work/said" || code=$?
  [ $code = "$1" ] || wrong "exit code $code, not $1: ${*:2}"
}
has() { grep -qF -- "$1" "$work/out" || wrong "'$1' is not in the table"; }
said() { grep -qF -- "$1" "$work/said" || wrong "'$1' was not said"; }
runs() { local n; n=$(grep -cE -- "$2" "$log" || true); [ "$n" = "$1" ] || wrong "$n runs of '$2', not $1: $(cat "$log")"; }

run 0 --prompts 512 --depths 0,512 --rounds 3
said "OpenVINO GenAI is not there, and left out; to get it:"
said "min left"
has "|  | prompt of 512 | generate behind 0 | generate behind 512 |"
has "| Pith | 200.0 | 30.0 | 30.0 |"
has "| Pith within 1,024 |  | 33.0 | 33.0 |"
has "| llama.cpp | 100.0 (fa 1) | **21.0** (fa 0) | **21.0** (fa 0) |"
has "| ik_llama.cpp | **150.0** (fa 1) | 21.0 (fa 0) | 21.0 (fa 0) |"
has "| mistral.rs | 50.0 | 10.0 | 10.0 |"
has "| Pith ÷ best peer | 1.33 | 1.43 | 1.43 |"
has "| Pith within 1,024 ÷ best peer |  | 1.57 | 1.57 |"
has "| Pith, of what reading memory allows |  | 50 % | 76 % |"
has "| Pith within 1,024, of what reading memory allows |  | 55 % | 83 % |"
has "| plainly reading memory |  | 60.0 GB/s | 60.0 GB/s |"
runs 6 '^memory read --threads 2'
has "mistral.rs: 9.9"
has "llama.cpp: abc (7), test; medians of 3"
# A setting that was a fifth slower is run once; one that may be the faster one in every round.
runs 1 '^llama-bench fa 0 .* -p 128,512'
runs 3 '^llama-bench fa 1 .* -p 128,512'
runs 3 '^ik-bench fa 0 .* -p 128,512'
runs 3 '^ik-bench fa 1 .* -gp 512,32'
runs 3 '^llama-bench fa 0 .* -d 512'
runs 6 '^pith .*--budget 1024'
# One process of mistral.rs gives a prompt and what is generated behind it; nothing precedes what is generated behind 0 but a token.
runs 3 '^mistral.rs 512 33$'
runs 3 '^mistral.rs 1 33$'
runs 0 '^mistral.rs 512 2$'

# It goes on where it was: nothing again, and a last line that was cut short once more.
cp "$log" "$work/before"
run 0 --prompts 512 --depths 0,512 --rounds 3
cmp -s "$log" "$work/before" || wrong "what was measured is measured again"
n=$(wc -l <"$rows")
truncate -s -9 "$rows"
run 0 --prompts 512 --depths 0,512 --rounds 3
[ $(($(wc -l <"$log") - $(wc -l <"$work/before"))) -ge 1 ] || wrong "a row that was cut short counts"
[ "$(wc -l <"$rows")" = $((n + 1)) ] || wrong "the row went to the wrong place"
has "| Pith ÷ best peer | 1.33 | 1.43 | 1.43 |"

# Another build of Pith is measured anew, and nothing else; a table needs no program.
echo "# another build" >>"$work/pith"
cp "$log" "$work/before"
run 0 --prompts 512 --depths "" --rounds 2
said "rows of other builds do not count"
[ "$(comm -13 <(sort "$work/before") <(sort "$log") | grep -vc '^pith' || true)" = 0 ] || wrong "a peer was measured again"
[ $(($(wc -l <"$log") - $(wc -l <"$work/before"))) = 2 ] || wrong "Pith was not measured twice: $(cat "$log")"
rm "$work/pith"
run 0 --table --peers pith,llama.cpp
has "| Pith ÷ best peer | 2.00 |"
run 0 --table --json
python3 - "$work/out" <<'PYTHON' || wrong "the JSON is not what it should be"
import json, sys
answer = json.load(open(sys.argv[1]))
prompt = next(point for point in answer["points"] if (point["kind"], point["tokens"]) == ("prompt", 512))
assert prompt["best_peer"] == "ik_llama.cpp" and abs(prompt["ratios"]["pith"] - 200 / 150) < 1e-9, prompt
assert prompt["programs"]["llama.cpp"]["rss_bytes"] > 2**20, prompt
PYTHON

# A program that breaks is said and left out; the others go on. --long takes the setting that read the longest prompt faster.
touch "$work/breaks"
: >"$log"
run 0 --long 2000 --peers llama.cpp,ik_llama.cpp
said "ik_llama.cpp, fa 1, prompt of 2,000: ended with code 1: no such model; left out"
runs 1 '^llama-bench fa 1 .* -p 128,2000'
runs 0 '^llama-bench fa 0'
has "| llama.cpp | 20 | **100.0** (fa 1) |"
run 1 --peers pith -o "$work/none.csv"
said "Pith is not there, and left out; to get it: scripts/build pith"
said "nothing was measured"
run 2 --peers lama
said "no program 'lama'; there are pith"
run 2 --prompts 5k
said "'5k' is no list of numbers"

# Stopped, it ends at once, and what it started with it.
touch "$work/sleeps"
"$script" -m "$work/model.gguf" -o "$work/none.csv" --peers llama.cpp --prompts 512 --depths "" >"$work/out" 2>"$work/said" &
running=$!
for _ in $(seq 100); do [ ! -s "$work/sleeper" ] || break; sleep 0.1; done
kill "$running"
for _ in $(seq 100); do kill -0 "$running" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$running" 2>/dev/null || { kill -9 "$running"; wrong "it did not end"; }
for _ in $(seq 50); do kill -0 "$(cat "$work/sleeper")" 2>/dev/null || break; sleep 0.1; done
! kill -0 "$(cat "$work/sleeper")" 2>/dev/null || wrong "what it started goes on"
echo "scripts/measure_peers: all right"
