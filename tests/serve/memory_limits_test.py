#!/usr/bin/env python3
"""`pith serve` under eleven limits of its memory (ulimit -v), with large bodies from many clients at once: a request that finds
none gets an error, or its connection ends; the server lives, answers a small request afterwards, and ends with code 0 on SIGTERM.

  memory_limits_test.py PITH MODEL

Exit 1: a server died, or answered wrongly."""
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
ABOVE = [8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512]  # MiB of address space beyond what an idle server has
REPLIES = {200, 400, 413, 429, 503, None}  # None: the connection ended


def start(pith, model, limit, errors):
    def set_limit():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    command = [pith, "serve", "-m", model, "--port", "0", "-t", "1", "--shutdown-timeout", "2", "--kv-budget", "8M", "--cache-ram", "4"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=set_limit)
    line = server.stdout.readline()
    return server, int(line.rsplit(":", 1)[1]) if line else 0


def ask(port, path, body, timeout=60):
    """Its code; None: it ended without."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
            method = "POST" if body is not None else "GET"
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            if body is not None:
                head += f"Content-Length: {len(body)}\r\n"
            try:
                connection.sendall(head.encode() + b"\r\n" + (body or b""))
            except OSError:
                pass  # it may have been refused before it was sent
            reply = b""
            while True:
                piece = connection.recv(65536)
                if not piece:
                    break
                reply += piece
    except OSError:
        reply = b""
    return int(reply[9:12]) if reply.startswith(b"HTTP/1.1 ") else None


def bodies():
    text = "The quick brown fox jumps over the lazy dog. " * (3 * MIB // 45)
    words = "".join(f"word{i} " for i in range(100_000))
    values = '{"prompt":"x","max_tokens":1,"ignored":[' + '["text of more than a few letters"],' * 100_000 + "0]}"
    nested = '{"prompt":"x","max_tokens":1,"ignored":[' + ("[" * 190 + "]" * 190 + ",") * 500 + "0]}"
    said = [{"role": "user", "content": f"{i} " * 100} for i in range(2000)]
    small = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 8, "temperature": 0}
    return [("/tokenize", json.dumps({"content": text}).encode()),
            ("/v1/completions", json.dumps({"prompt": text, "max_tokens": 1}).encode()),
            ("/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": text}], "max_tokens": 1}).encode()),
            ("/v1/messages", json.dumps({"messages": said, "max_tokens": 1}).encode()),
            ("/v1/responses", json.dumps({"input": words, "max_output_tokens": 16}).encode()),
            ("/v1/completions", values.encode()),
            ("/v1/completions", nested.encode()),
            ("/v1/chat/completions", json.dumps(small).encode())]


def attack(port, clients, rounds):
    """Codes of all replies."""
    codes = []

    def client(index):
        for turn in range(rounds):
            path, body = clients[(index + turn) % len(clients)]
            codes.append(ask(port, path, body))

    threads = [threading.Thread(target=client, args=(i,)) for i in range(2 * len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return codes


def size_of(server):
    for line in pathlib.Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmPeak:"):
            return int(line.split()[1]) * 1024
    return 0


def is_well(port):
    for _ in range(100):
        if ask(port, "/health", None, 5) == 200:
            return True
        time.sleep(0.1)
    return False


def try_level(pith, model, limit, clients):
    """What went wrong; empty: nothing."""
    with tempfile.TemporaryFile("w+") as errors:
        server, port = start(pith, model, limit, errors)
        problem, codes = "", []
        if not port:
            code = server.wait(60)
            problem = "" if code == 1 else f"it did not start, and ended with code {code}"
            print(f"  {limit // MIB} MiB: does not start (code {code})", flush=True)
        else:
            codes = attack(port, clients, 1)
            small = ask(port, *clients[-1]) if is_well(port) else None
            if server.poll() is not None:
                problem = f"it died with code {server.returncode}"
            elif small not in (200, 503):
                problem = f"it answers a small request with {small}"
            else:
                server.send_signal(signal.SIGTERM)
                try:
                    code = server.wait(30)
                except subprocess.TimeoutExpired:
                    server.kill()
                    code = "none within 30 s"
                problem = "" if code == 0 else f"it ended with code {code}"
            if not set(codes) <= REPLIES:
                problem += f" codes {set(codes) - REPLIES}"
            told = {code: codes.count(code) for code in sorted(set(codes), key=str)}
            print(f"  {limit // MIB} MiB: {told}, then {small}{': ' + problem if problem else ''}", flush=True)
        if problem:
            errors.seek(0)
            print("    " + "\n    ".join(errors.read().splitlines()[-5:]), flush=True)
            if server.poll() is None:
                server.kill()
        return problem


def main():
    pith, model = sys.argv[1:3]
    os.environ["OMP_WAIT_POLICY"] = "passive"
    with tempfile.TemporaryFile("w+") as errors:
        server, port = start(pith, model, 0, errors)
        is_well(port)
        idle = size_of(server)
        server.kill()
        server.wait()
    print(f"an idle server has {idle // MIB} MiB of address space", flush=True)
    clients = bodies()
    problems = [problem for above in ABOVE if (problem := try_level(pith, model, idle + above * MIB, clients))]
    print(f"{len(ABOVE)} limits, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
