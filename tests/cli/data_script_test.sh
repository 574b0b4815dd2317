#!/usr/bin/env bash
# scripts/data against a server on this machine: fetched, checked, resumed, refused. Exit code 77: skipped, a tool is missing.
#   data_script_test.sh PATH/TO/scripts/data
set -euo pipefail
script=$1
for tool in python3 curl; do command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }; done

work=$(mktemp -d)
trap '[ -z "${server:-}" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/files"
cat >"$work/server.py" <<'PYTHON'
# Serves WORK/files/NAME under any path that ends in NAME, from the middle where it is asked to, as the hub answers: with the
# commit that a revision is. WORK/break holds a number: the next answer breaks off after so many bytes.
import http.server, os, sys
work = sys.argv[1]
COMMIT = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00"
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, with_body):
        revision = self.path.split("/resolve/")[1].split("/")[0] if "/resolve/" in self.path else "main"
        path = os.path.join(work, "files", os.path.basename(self.path))
        if revision not in ("main", COMMIT) or not os.path.exists(path):
            self.send_error(404)
            return
        data = open(path, "rb").read()
        begin = int((self.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
        with open(os.path.join(work, "log"), "a") as log:
            log.write(f"{self.command} {os.path.basename(self.path)} {revision} from {begin}\n")
        if begin and begin >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(data) - begin))
        if begin: self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if not with_body: return
        flag = os.path.join(work, "break")
        if os.path.exists(flag):
            data = data[:begin + int(open(flag).read())]
            os.remove(flag)
        self.wfile.write(data[begin:])
    def do_HEAD(self): self.answer(False)
    def do_GET(self): self.answer(True)
    def log_message(self, *arguments): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(os.path.join(work, "port.new"), "w") as port: port.write(str(server.server_address[1]))
os.rename(os.path.join(work, "port.new"), os.path.join(work, "port"))
server.serve_forever()
PYTHON
python3 "$work/server.py" "$work" &
server=$!
for _ in $(seq 100); do [ ! -f "$work/port" ] || break; sleep 0.1; done
PITH_DATA_FROM=http://127.0.0.1:$(cat "$work/port")
export PITH_DATA_FROM
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1

check() { echo "FAILED: $*"; echo "--- said:"; cat "$work/said"; exit 1; }
# run EXIT_CODE ARGUMENTS…: what it says goes to $work/said.
run() {
  local expected=$1 code=0
  shift
  "$script" "$@" >"$work/said" 2>&1 || code=$?
  [ "$code" -eq "$expected" ] || check "exit code $code, not $expected: $*"
}
said() { grep -qF -- "$1" "$work/said" || check "'$1' was not said"; }
no_parts() { [ -z "$(find "$1" -name '.*' ! -name "$(basename "$1")")" ] || check "something is left in $1: $(ls -A "$1")"; }

# Fetched once, with what was fetched written down.
head -c 200000 /dev/urandom | base64 >"$work/files/data.json"
v2=$work/v2
run 0 longbench-v2 "$v2"
said "1 MB needed"
said "taken as it came"
cmp "$work/files/data.json" "$v2/data.json" || check "another file"
grep -q "^revision c0ffee00" "$v2/longbench-v2.lock" || check "the lock does not hold the revision"
grep -q "^[0-9a-f]\{64\} data.json$" "$v2/longbench-v2.lock" || check "the lock does not hold the checksum"
no_parts "$v2"
run 0 longbench-v2 "$v2"
said "all there"
grep -q "GET data.json c0ffee00" "$work/log" || check "the file was not taken from the revision that the lock holds"
[ "$(grep -c GET "$work/log")" -eq 1 ] || check "fetched again"

# Changed by somebody: said, and left alone.
echo more >>"$v2/data.json"
run 1 longbench-v2 "$v2"
said "it was changed; move it away"
rm "$v2/data.json"

# Broken off: nothing under the name, and it goes on from the middle.
echo 100000 >"$work/break"
run 1 longbench-v2 "$v2"
said "broke off"
said "the same command goes on"
[ ! -e "$v2/data.json" ] || check "half a file has the name of a whole one"
run 0 longbench-v2 "$v2"
cmp "$work/files/data.json" "$v2/data.json" || check "another file after going on"
tail -1 "$work/log" | grep -q "from 100000" || check "it began anew: $(tail -1 "$work/log")"
no_parts "$v2"

# Killed between the last byte and the name: what lies there whole is not fetched again.
mv "$v2/data.json" "$v2/.data.json.part"
run 0 longbench-v2 "$v2"
cmp "$work/files/data.json" "$v2/data.json" || check "another file after a whole part"

# Another content than the lock's is refused, and nothing of it stays.
rm "$v2/data.json"
echo other >"$work/files/data.json"
run 1 longbench-v2 "$v2"
said "was expected"
[ ! -e "$v2/data.json" ] || check "a file that is not the lock's was kept"
no_parts "$v2"

# Pinned in the script: another content is refused at the first fetch.
for task in code_debug code_run kv_retrieval longbook_choice_eng longbook_qa_chn longbook_qa_eng longbook_sum_eng \
  longdialogue_qa_eng math_calc math_find number_string passkey; do
  echo '{"id": 0}' >"$work/files/preds_$task.jsonl"
done
run 1 infinitebench-gpt4 "$work/gpt4"
said "was expected"
[ -z "$(ls -A "$work/gpt4")" ] || check "something was kept: $(ls -A "$work/gpt4")"

# An archive is unpacked; its files are checked one by one.
mkdir "$work/data"
for task in qasper trec; do echo "{\"_id\": \"$task\"}" >"$work/data/$task.jsonl"; done
(cd "$work" && python3 -m zipfile -c files/data.zip data/)
lb=$work/lb
run 0 longbench "$lb"
[ "$(cat "$lb/trec.jsonl")" = '{"_id": "trec"}' ] || check "not unpacked"
[ ! -e "$lb/data.zip" ] || check "the archive is still there"
no_parts "$lb"
run 0 longbench "$lb"
said "all there"
rm "$lb/trec.jsonl"
run 0 longbench "$lb"
[ -f "$lb/trec.jsonl" ] || check "a file that went is not there again"

# A lock from elsewhere decides what a new folder gets.
mkdir "$work/copy"
cp "$lb/longbench.lock" "$work/copy/"
run 0 longbench "$work/copy"
cmp "$lb/qasper.jsonl" "$work/copy/qasper.jsonl" || check "another file by the same lock"
run 1 longbench "$work/copy" --revision 1234
said "is of revision c0ffee00"

run 1 longbnch
said "unknown data set 'longbnch'"
run 1
said "name a data set: infinitebench"
run 1 longbench --fast
said "unknown option '--fast'"
run 0 --list
said "ruler-qa"
echo mine >"$work/own.json"
mkdir "$work/mine"
cp "$work/own.json" "$work/mine/data.json"
run 1 longbench-v2 "$work/mine"
said "move it away"
kill "$server"
wait "$server" 2>/dev/null || true
run 1 longbench-v2 "$work/nothing"
said "does not answer"
echo "scripts/data: all right"
