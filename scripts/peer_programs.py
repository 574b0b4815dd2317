"""The programs that scripts/measure_peers measures: how each is found, started, and what its answer says.

measure() runs one of them in a process of its own and gives {(kind, tokens): (tokens a second, seconds)}, the Child with its peak of
resident memory, the program's version and the instructions it ran with. Kinds: "prompt" (read as a whole, nothing before it), "long" (the same,
one that a budget is for), "generate" (so many tokens behind a prompt of `tokens`). All weights are touched before anything is timed.
"""
import atexit
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
N_WARM_UP = 128  # tokens, as `pith bench` reads first
MEMORY_MIB = 1024  # more than any cache holds


class Failed(Exception):
    """One line: what the program did instead of answering."""


class Quiet:
    """Nothing but a wrapper's program (`quiet cat`) running beside what is timed: the wrapper begins, and ends, with it."""

    def __init__(self, words):
        self.words = words

    def __enter__(self):
        if self.words:
            self.process = subprocess.Popen([*self.words, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.process.stdin.write("begin\n")
            self.process.stdin.flush()
            self.process.stdout.readline()

    def __exit__(self, *_):
        if self.words:
            self.process.stdin.close()
            self.process.wait()


TICKS = os.sysconf("SC_CLK_TCK")


def busy_s():
    """Seconds of processor time that this machine's work has taken, and that the machines beside it took away; None where it is not told."""
    try:
        fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(fields) - fields[3] - fields[4]) / TICKS  # not idle, not waiting for a disk


class Child:
    """A process whose output lies in files, so that its end alone is waited for, and whose peak of memory is then known."""

    def __init__(self, command, limit, talks=False):
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}  # sleeping threads generate slowly
        self.talks = talks
        self.process = subprocess.Popen([str(word) for word in command], env=environment, stderr=self.err,
                                        stdin=subprocess.PIPE if talks else subprocess.DEVNULL, stdout=subprocess.PIPE if talks else self.out)
        atexit.register(self.kill)
        self.too_long = threading.Timer(limit, self.kill)
        self.too_long.daemon = True  # it keeps nobody waiting who is stopped
        self.too_long.start()
        self.begin()

    def begin(self):
        """What comes now is timed."""
        self.start, self.busy = time.monotonic(), busy_s()
        try:
            fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            self.own = (int(fields[11]) + int(fields[12])) / TICKS
        except (OSError, IndexError):
            self.own = 0

    def kill(self):
        try:
            self.process.kill()
        except OSError:
            pass

    def line(self):
        return self.process.stdout.readline().decode()

    def said(self):
        self.err.seek(0)
        return self.err.read().decode(errors="replace")

    def end(self):
        """What it printed. Sets rss, the peak of resident memory in bytes (of the process or of one that it started), and others, the cores
        that other work took meanwhile."""
        _, status, used = os.wait4(self.process.pid, 0)
        seconds, busy = time.monotonic() - self.start, busy_s()
        self.rss = used.ru_maxrss * 1024
        self.others = None if busy is None else max(0, busy - self.busy - (used.ru_utime + used.ru_stime - self.own)) / max(seconds, 0.01)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        atexit.unregister(self.kill)
        in_time = self.too_long.is_alive()
        self.too_long.cancel()
        if self.process.returncode != 0:
            lines = self.said().strip().splitlines() or ["it said nothing"]
            raise Failed(f"ended with code {self.process.returncode}: {lines[-1]}" if in_time else "took longer than --limit allows")
        self.out.seek(0)
        return "" if self.talks else self.out.read().decode()


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        raise Failed("did not print JSON") from None


def run(command, options):
    with Quiet(options.quiet):
        child = Child(command, options.limit)
        text = child.end()
    return child, parsed(text)


class Peer:
    settings = [""]
    both = False  # whether one process gives a prompt's speed and generation behind it

    def __init__(self, options):
        self.options = options

    def takes(self, kind, tokens):
        return True


class Pith(Peer):
    key, name = "pith", "Pith"

    def missing(self):
        if not pathlib.Path(self.options.pith).exists():
            return "scripts/build pith"

    def version(self):
        program = pathlib.Path(self.options.pith)
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
        return f"{said} ({hashlib.sha256(program.read_bytes()).hexdigest()[:8]})"

    def policy(self, kind):
        return ["--policy", "full"]

    def measure(self, setting, kind, tokens, also_generate):
        options = self.options
        case = ["--depth", tokens, "-p", 0, "-n", options.generate] if kind == "generate" else ["-p", tokens, "-n", 0]
        child, answer = run([options.pith, "bench", "-m", options.model, "-t", options.threads, "-r", 1, "--no-llama", "--json",
                              *self.policy(kind), *case], options)
        row = answer["rows"][0]
        rate = row["decode_tps" if kind == "generate" else "prefill_tps"]
        return {(kind, tokens): (rate, (options.generate if kind == "generate" else tokens) / rate)}, child, self.version(), row["attention"]


class PithWithin(Pith):
    key, name = "pith-budget", "Pith, budget"

    def __init__(self, options):
        super().__init__(options)
        self.settings = [f"{options.policy} within {options.budget}"]
        self.name = f"Pith within {int(options.budget):,}" if options.budget.isdigit() else f"Pith within {options.budget}"

    def takes(self, kind, tokens):
        return kind != "prompt"

    def policy(self, kind):
        return ["--policy", self.options.policy, "--budget", self.options.budget, *(["--prefill", "chunked"] if kind == "long" else [])]


class LlamaBench(Peer):
    """llama-bench of llama.cpp or ik_llama.cpp: both print the same JSON."""

    settings = ["fa 0", "fa 1"]

    def version(self, test):
        return f"{test.get('build_commit', '?')} ({test.get('build_number', '?')})"

    def measure(self, setting, kind, tokens, also_generate):
        command = [*self.program(), "-m", self.options.model, "-o", "json", "-r", 1, "-t", self.options.threads, "-fa", setting[-1]]
        child, tests = run(command + self.words(kind, tokens), self.options)
        test = tests[-1]
        rate = test["avg_ts"]
        version = self.version(test)
        n = self.options.generate if kind == "generate" else tokens
        return {(kind, tokens): (rate, n / rate)}, child, version, self.isa(child.said())


class LlamaCpp(LlamaBench):
    key, name = "llama.cpp", "llama.cpp"

    def program(self):
        given = os.environ.get("LLAMA_BENCH")
        return [given] if given else [ROOT / "scripts/llama_cpp", "llama-bench"]

    def missing(self):
        try:
            found = subprocess.run([*self.program(), "--help"], capture_output=True, check=False).returncode == 0
        except OSError:
            found = False
        if not found:
            return "scripts/setup unpacks it on Debian; elsewhere put llama-bench on PATH, or name it by LLAMA_BENCH=FILE"

    def words(self, kind, tokens):
        if kind == "generate":
            return ["-p", 0, "-n", self.options.generate, "-d", tokens]
        return ["-p", f"{N_WARM_UP},{tokens}", "-n", 0, "--no-warmup"]

    def isa(self, said):
        found = re.findall(r"libggml-cpu-([\w.-]+)\.so", said)
        return found[-1] if found else "of its build"


class IkLlamaCpp(LlamaBench):
    key, name = "ik_llama.cpp", "ik_llama.cpp"

    def place(self):
        folder = pathlib.Path(self.options.ik_llama)
        return next((at for at in (folder, folder / "llama-bench", folder / "bin/llama-bench", folder / "build/bin/llama-bench") if at.is_file()), None)

    def program(self):
        return [self.place()]

    def version(self, test):
        """Built from a folder without git it names the commit of the repository around that folder: then the folder's name has to do."""
        sources = pathlib.Path(self.options.ik_llama).resolve()
        return super().version(test) if (sources / ".git").exists() or not sources.is_relative_to(ROOT) else sources.name

    def missing(self):
        if self.place() is None:
            folder = self.options.ik_llama
            return (f"git clone https://github.com/ikawrakow/ik_llama.cpp {folder} && cmake -S {folder} -B {folder}/build "
                    f"-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON && cmake --build {folder}/build --target llama-bench -j; a folder elsewhere: --ik-llama or PITH_IK_LLAMA")

    def words(self, kind, tokens):
        if kind == "generate" and tokens > 0:
            return ["-p", 0, "-n", 0, "-gp", f"{tokens},{self.options.generate}"]
        return ["-p", 0, "-n", self.options.generate] if kind == "generate" else ["-p", f"{N_WARM_UP},{tokens}", "-n", 0, "-w", 0]

    def isa(self, said):
        caches = (at / "CMakeCache.txt" for at in self.place().parents)
        cache = next((file.read_text() for file in caches if file.is_file()), "")
        return "native build" if "GGML_NATIVE:BOOL=ON" in cache else "of its build"


class InPython(Peer):
    """A package that `pip install --target` put into .deps/peers, started by scripts/peer_child.py."""

    both = True

    def folder(self):
        return pathlib.Path(self.options.packages) / self.key

    def missing(self):
        if not (self.folder() / self.module).is_dir():
            return f"{sys.executable} -m pip install --target {self.folder()} {self.package} (or scripts/measure peers --install)"

    def install(self):
        return subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", self.folder(), self.package], check=False).returncode == 0

    def measure(self, setting, kind, tokens, also_generate):
        options = self.options
        n = options.generate + 1 if kind == "generate" or also_generate else 2
        child = Child([sys.executable, ROOT / "scripts/peer_child.py", self.key, "--packages", self.folder(), "--model", options.model, "--text", options.text,
                       "--prompt", max(tokens, 1), "--generate", n, "--threads", options.threads], options.limit, talks=True)
        ready = child.line()
        with Quiet(options.quiet if ready else []):
            if ready:
                child.begin()
                child.process.stdin.write(b"go\n")
                child.process.stdin.flush()
            line = child.line()
            child.end()
        ready, result = parsed(ready), parsed(line)
        out = {}
        if kind != "generate":
            out[kind, tokens] = (tokens / result["prompt_s"], result["prompt_s"])
        if kind == "generate" or also_generate:
            out["generate", tokens] = ((n - 1) / result["generate_s"], result["generate_s"])
        return out, child, ready["version"], ready["isa"]


class MistralRs(InPython):
    key, name, module, package = "mistral.rs", "mistral.rs", "mistralrs", "mistralrs==0.9.5"


class OpenVino(InPython):
    key, name, module, package = "openvino", "OpenVINO GenAI", "openvino_genai", "openvino-genai==2026.4.1"


class Memory(Peer):
    """No peer: plainly reading memory on the same threads, GB/s in place of tokens a second. It bounds generation, which reads all weights for
    each token."""

    key, name = "memory", "reading memory"

    def missing(self):
        if not pathlib.Path(self.options.memory).exists():
            return "scripts/build_bench roofline_bench"

    def takes(self, kind, tokens):
        return kind == "generate"

    def measure(self, setting, kind, tokens, also_generate):
        child, answer = run([self.options.memory, "read", "--threads", self.options.threads, "--footprint", MEMORY_MIB, "--repeats", 9, "--json"], self.options)
        rate = answer["read_gb_per_s"]
        return {(kind, tokens): (rate, MEMORY_MIB * 2**20 / 1e9 / rate)}, child, "", ""


def bytes_a_token(options):
    """{Pith's key: f(depth)}: bytes of weights and K/V that a token behind so many reads; nothing where Pith cannot be asked."""
    try:
        said = subprocess.run([options.pith, "info", "-m", options.model, "--json"], capture_output=True, text=True, check=True).stdout
        info = json.loads(said)
        weights, entry = info["weight_bytes_per_token"], info["kv_bytes_per_token"]
    except (OSError, subprocess.CalledProcessError, ValueError, KeyError, TypeError):
        return {}
    reads = {"pith": lambda depth: weights + entry * depth}
    if options.budget.isdigit():
        reads["pith-budget"] = lambda depth: weights + entry * min(depth, int(options.budget))
    return reads


ALL = [Pith, PithWithin, LlamaCpp, IkLlamaCpp, MistralRs, OpenVino, Memory]
OURS = ["pith", "pith-budget"]
