"""Runs the commands that README.md, docs/ and examples/sample/README.md give, in their order, page by page.

  commands_test.py ROOT PITH MODEL… [--under WHEN] [--page NAME] [--list]

A command is a line of a block that begins with a program (PROGRAMS). It must end with 0, on fewer texts than it says (SMALLER); a server
must come to listen. A comment in front of a block says otherwise of all its commands, or of those that have the words between the quotation
marks ("words$": that end with them):

  <!-- not run: REASON -->         <!-- not run "WORDS": REASON -->         <!-- run under real: REASON -->    (or under slow)

WHEN: real and slow run those pages that have such commands, these included; without it those are left out, counted and told. Every page has
a folder of its own with the sample (examples/sample), the last model as model.gguf and the first as MODEL. There is no third way: what is
not marked is run. A mark that no command has is a fault.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

import real_model

PROGRAMS = ("pith cmake ctest ninja make git curl wget cat tail head echo tar dpkg apt apt-get sudo pip pipx uv python3 python npm npx node "
            "docker podman export source ollama ggml-rpc-server ggml-rpc llama-server sbatch srun cd mkdir cp mv ln rm open claude codex open-webui").split()
PREFIXES = ("pith-", "here/", "build/", "scripts/", "$", "./", "job=$(")
TAGGED_TEXT = ("cpp", "c", "python", "cmake", "json", "yaml", "toml", "csv")
BLOCK = re.compile(r"(?P<marks>(?:^<!-- (?:not run|run under)[^\n]*-->\n+)*)(?:^```(?P<tag>\w*)\n(?P<fenced>[\s\S]*?)^```$|(?P<indented>(?:^ {4}.*(?:\n|\Z))+))", re.M)
MARK = re.compile(r'<!-- (not run|run under (real|slow))(?: "([^"]*)")?: (.+?) -->')
ANY_MARK = re.compile(r"<!-- *(?:not run|run under)[^\n]*")
# The same command on fewer texts; a chat with a seed: without one the built-in model babbles to the end of its context once in forty times.
SMALLER = ((r"--samples \d+", "--samples 1"), (r"--texts \d+", "--texts 2"), (r"\bpith chat\b", "pith chat --seed 1"))
MOST_SECONDS = {None: 60, "slow": 900, "real": 900}

Command = collections.namedtuple("Command", "page line when reason")  # when: None, "not run", "real", "slow"


def is_command(line):
    words = re.sub(r"^([A-Z_]+=\S+ +)+", "", line).split()
    return bool(words) and (words[0] in PROGRAMS or words[0].startswith(PREFIXES))


def lines_of(block):
    """Its commands, each on one line, without the comment behind it."""
    for line in re.sub(r"\\\n\s*", " ", block).split("\n"):
        line = re.sub(r"\s{2,}#.*$|\s#\s.*$", "", line).strip()
        if is_command(line):
            yield line


def commands_of(page, text, faults):
    """Block by block."""
    n_read = 0
    for found in BLOCK.finditer(text):
        marks = [(MARK.search(line), line) for line in found["marks"].split("\n") if line]
        n_read += len(marks)
        faults += [f"{page}: this mark cannot be read: {line}" for mark, line in marks if not mark]
        marks = [mark for mark, _ in marks if mark]
        tag = found["tag"] or ""
        block = found["fenced"] if found["indented"] is None else textwrap.dedent(found["indented"])
        if tag in TAGGED_TEXT:
            continue
        used, commands = set(), []
        for line in lines_of(block):
            when, reason = None, None
            for mark in marks:
                if mark[3] is None or mark[3] in line + "$":  # "laprox$": at the line's end
                    used.add(mark)
                    when, reason = mark[2] or "not run", mark[4]
            commands.append(Command(page, line, when, reason))
        faults += [f"{page}: no command has this mark: {mark[0]}" for mark in marks if mark not in used]
        if commands:
            yield commands
    if n_read != len(ANY_MARK.findall(text)):
        faults.append(f"{page}: a mark stands in front of no block of commands")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Stage:
    """A folder as a reader would have it, and how commands run there."""

    def __init__(self, root, pith, models):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pith-docs-"))
        shutil.copytree(root / "examples/sample", self.folder, dirs_exist_ok=True)
        for name, file in (("model.gguf", models[-1]), ("MODEL", models[0])):
            (self.folder / name).symlink_to(file)
        binaries = pathlib.Path(pith).parent
        (self.folder / "build/apps").mkdir(parents=True)
        (self.folder / "build/apps/pith").symlink_to(binaries)
        (self.folder / "examples").symlink_to(root / "examples")
        for name, make in FIXTURES.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(make(self.folder), encoding="utf-8")
        self.port = free_port()
        keep = ("LANG", "LC_ALL", "TMPDIR", "OMP_WAIT_POLICY", "LD_LIBRARY_PATH", "ASAN_OPTIONS")
        self.environment = {**{name: os.environ[name] for name in keep if name in os.environ}, "HOME": str(self.folder),
                            "PATH": f"{binaries}:{root / '.deps/bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "2"}
        self.servers = []

    def run(self, line, seconds):
        """None, or what went wrong."""
        if re.match(r"pith serve\b", line):
            self.end_servers()
        for many, few in SMALLER:
            line = re.sub(many, few, line)
        command = line.replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")
        if re.match(r"pith serve\b", line):
            return self.serve(command + f" --port {self.port}", seconds)
        said = "What is the narrator's name?\n/kept\n/exit\n" if re.search(r"\bpith chat\b", line) else ""
        with subprocess.Popen(["bash", "-o", "pipefail", "-c", re.sub(r"^curl ", "curl -sS --fail-with-body ", command)], cwd=self.folder, env=self.environment, text=True, errors="replace",
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
            try:
                told, _ = process.communicate(said, timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"did not end within {seconds} s"
            except BaseException:  # this test is stopped: nothing that it began goes on
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return None if process.returncode == 0 else f"ended with {process.returncode}: {told.strip()[-600:]}"

    def serve(self, command, seconds):
        log = open(self.folder / "serve.log", "w", encoding="utf-8")
        process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        log.close()
        self.servers.append(process)
        end = time.monotonic() + seconds
        while time.monotonic() < end and process.poll() is None:
            if "listening on" in (self.folder / "serve.log").read_text(encoding="utf-8"):
                return None
            time.sleep(0.05)
        return f"does not listen: {(self.folder / 'serve.log').read_text(encoding='utf-8')[-600:]}"

    def end_servers(self):
        for process in self.servers:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.servers.clear()
        self.port = free_port()

    def close(self):
        self.end_servers()
        shutil.rmtree(self.folder, ignore_errors=True)


# Files that pages speak of and the sample has not.
FIXTURES = {
    "ids.txt": lambda folder: " ".join(str(i) for i in range(10, 200)),
    "text.txt": lambda folder: (folder / "book.txt").read_text(encoding="utf-8"),
    "novel.txt": lambda folder: (folder / "book.txt").read_text(encoding="utf-8") * 8,
    "notes.txt": lambda folder: (folder / "book.txt").read_text(encoding="utf-8"),
    "agent.json": lambda folder: (folder / "tool_call.json").read_text(encoding="utf-8"),
    "service.log": lambda folder: "".join(f"12:00:{i:02d} request {i} took {i * 7 % 13} ms\n" for i in range(60)),
    "mine.jinja": lambda folder: "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
    "FOLDER/none": lambda folder: "",
}


def main():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("root", type=pathlib.Path)
    reader.add_argument("pith", type=pathlib.Path)
    reader.add_argument("models", nargs="+", help="files, or what scripts/fetch_models knows")
    reader.add_argument("--under", choices=("real", "slow"))
    reader.add_argument("--page", help="this one alone")
    reader.add_argument("--list", action="store_true", help="print the commands; run none")
    asked = reader.parse_args()
    root = asked.root.resolve()
    models = [] if asked.list else [real_model.find(model) for model in asked.models]
    if not all(model.exists() for model in models):
        print("skipped: there is no " + ", ".join(str(model) for model in models if not model.exists()))
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    faults, n_run, left = [], 0, collections.Counter()
    began = time.monotonic()
    for path in [root / "README.md", root / "examples/sample/README.md", *sorted((root / "docs").glob("*.md"))]:
        page = str(path.relative_to(root))
        if asked.page and asked.page not in page:
            continue
        blocks = list(commands_of(page, path.read_text(encoding="utf-8"), faults))
        if asked.under and not any(command.when == asked.under for block in blocks for command in block):
            continue
        stage = None
        for block in blocks:
            for command in block:
                if asked.list:
                    print(f"{page}: {command.when or 'run'}: {command.line}" + (f"   ({command.reason})" if command.reason else ""))
                    continue
                if command.when not in (None, asked.under):
                    left[f"{command.when}: {command.reason}"] += 1
                    continue
                stage = stage or Stage(root, asked.pith.resolve(), models)
                at = time.monotonic()
                wrong = stage.run(command.line, MOST_SECONDS[asked.under])
                n_run += 1
                print(f"{time.monotonic() - at:6.2f} s  {page}: {command.line}", flush=True)
                if wrong:
                    faults.append(f"{page}: {command.line}\n    {wrong}")
            if stage:
                stage.end_servers()
        if stage:
            stage.close()
    if asked.list:
        return 0
    for reason, n in sorted(left.items()):
        print(f"{n:3} {reason}")
    print("\n".join(f"docs: {fault}" for fault in faults))
    print(f"docs: {n_run} commands were run, {sum(left.values())} are marked, {len(faults)} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults or (n_run < 20 and not asked.page and not asked.under) else 0


if __name__ == "__main__":
    sys.exit(main())
