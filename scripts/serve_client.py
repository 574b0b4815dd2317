"""A server of OpenAI's interface as a process of its own, and what clients ask it: for scripts/soak, kill_server, kill_replica and measure_serve."""
import atexit
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PITH = ROOT / "build/apps/pith/pith"
MODEL = ROOT / "models/pith-reference.gguf"
ROUNDING = 0.02  # of a log-probability, by what runs beside an answer: two tokens that are nearer each other may change places


def give_up(message):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {message}")


def said_by(program, *words):
    """Its standard output; ends this script with its last line on standard error where it fails."""
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        print(f"{pathlib.Path(sys.argv[0]).name}: pith {words[0]}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        sys.exit(1)
    return done.stdout


class Server:
    """`pith serve` on a free port of this machine; or, with a port, any program that is told to listen there and has /health."""

    def __init__(self, command, port=None, folder=None):
        command = [str(word) for word in command]
        self.port = port
        out = subprocess.PIPE if port is None else subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, text=True, cwd=folder)
        atexit.register(self.process.kill)  # no server outlives a script that gives up
        if port is None:
            line = self.process.stdout.readline()
            found = re.search(r":(\d+)$", line.strip())
            if not found:
                give_up(f"the server does not start: {line.strip() or 'see ' + ' '.join(command)}")
            self.port = int(found.group(1))
        elif not self._becomes_well():
            give_up(f"the server does not start: see {' '.join(command)}")

    def _becomes_well(self):
        while self.process.poll() is None:
            try:
                connection, reply = self.ask("GET", "/health")
                reply.read()
                connection.close()
                if reply.status == 200:
                    return True
            except OSError:
                pass
            time.sleep(0.1)
        return False

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=7200)
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def reply(self, path, body):
        """The status and the object of a whole reply."""
        connection, reply = self.ask("POST", path, body)
        value = json.loads(reply.read())
        connection.close()
        return reply.status, value

    def json(self, path, body):
        status, value = self.reply(path, body)
        if status != 200:
            give_up(f"{path}: {value}")
        return value

    def metrics(self):
        connection, reply = self.ask("GET", "/metrics")
        text = reply.read().decode()
        connection.close()
        return {name: float(value) for name, value in re.findall(r"^([a-z][^ ]*) ([-0-9.e+]+)$", text, re.M)}

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1)) * 1024

    def kill(self):
        self.process.kill()
        self._wait()

    def end(self):
        """Asks it to end, and returns how it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self):
        code = self.process.wait(timeout=120)
        if self.process.stdout:
            self.process.stdout.close()
        return code


class CutOff(ValueError):
    """A streamed reply ended before it said that it was whole."""


def events(reply):
    """The objects of a streamed reply, as they come."""
    for line in reply:
        line = line.strip()
        if line == b"data: [DONE]":
            return
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
    raise CutOff("the reply was cut off")


def text_of(choice):
    """Of a completion, a chat's message, or a piece of either."""
    said = choice.get("message") or choice.get("delta")
    return choice["text"] if said is None else said.get("content") or ""


def tokens_of(choice):
    """Of a choice that was asked for with "logprobs": 2: each token's number, and the two likeliest with their log-probabilities."""
    content = (choice.get("logprobs") or {}).get("content") or []
    return [(one["id"], [(top["id"], top["logprob"]) for top in one["top_logprobs"]]) for one in content]


def compare(alone, other):
    """Two greedy answers to one prompt, as tokens_of() has them: "same"; "tie": they part where the two likeliest tokens of the
    one alone lie within rounding, and each took one of them; or what is wrong."""
    for at, ((wanted, best), (got, _)) in enumerate(zip(alone, other)):
        if wanted == got:
            continue
        between = best[0][1] - best[1][1]
        if {wanted, got} == {best[0][0], best[1][0]} and between <= ROUNDING:
            return "tie"
        return f"token {at} is {got}, alone it is {wanted}: the two likeliest are {best}"
    return "same" if len(alone) == len(other) else f"{len(other)} tokens, alone {len(alone)}"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
