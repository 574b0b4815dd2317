"""What scripts/measure_agents and scripts/measure_repairs share: a conversation with tools, what has been answered, and paired counts."""
import hashlib
import json
import math
import pathlib
import random
import subprocess

from serve_client import ROOT, give_up


def sources():
    """Texts of this repository, in an order of their own."""
    paths = [path for pattern in ("src/**/*.cpp", "src/**/*.h", "docs/*.md") for path in sorted(ROOT.glob(pattern))]
    random.Random(1).shuffle(paths)
    return [(str(path.relative_to(ROOT)), path.read_text(errors="replace")) for path in paths]


def tool(name, help, fields, optional=()):
    """A function as OpenAI's interface wants it. `fields`: JSON's type of each argument."""
    kind = {"array": {"type": "array", "items": {"type": "string"}}}
    properties = {field: {**kind.get(what, {"type": what}), "description": f"The {field.replace('_', ' ')}. Relative to the workspace."}
                  for field, what in fields.items()}
    required = [field for field in fields if field not in optional]
    return {"type": "function", "function": {"name": name, "description": help, "parameters": {"type": "object", "properties": properties,
                                                                                               "required": required, "additionalProperties": False}}}


def called(call, name, arguments, result):
    """The two messages of a call and what came of it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"role": "assistant", "content": "", "tool_calls": [{"id": call, "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": call, "content": result}]


def digest(*texts):
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


class Answers:
    """What has been answered, in a file that goes on."""

    def __init__(self, folder, settings):
        """settings: what the answers depend on; a folder of others is refused."""
        self.path = pathlib.Path(folder) / "answers.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        said, wanted = self.path.parent / "settings.json", json.loads(json.dumps(settings, default=str))
        known = json.loads(said.read_text()) if said.exists() else wanted if not self.path.exists() else {}
        differs = [name for name in wanted if known.get(name) != wanted[name]]
        if differs:
            give_up(f"{self.path.parent} has answers to something else ({', '.join(differs)}): give another -o, or remove it")
        said.write_text(json.dumps(wanted))
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known = {}
        for line in lines:
            try:
                one = json.loads(line)
            except ValueError:
                continue  # cut off by a kill
            self.known[tuple(one["key"])] = one

    def get(self, *key):
        return self.known.get(key)

    def add(self, key, **values):
        one = {"key": list(key), **values}
        self.known[tuple(key)] = one
        with open(self.path, "a") as file:
            file.write(json.dumps(one) + "\n")
        return one


def paired(pairs):
    """Of answers of two ways to the same questions, right or not: how often only the first was right, only the second, and the two-sided
    probability of so uneven a share if both were as good (exact sign test)."""
    first = sum(bool(a) and not b for a, b in pairs)
    second = sum(bool(b) and not a for a, b in pairs)
    n, least = first + second, min(first, second)
    p = min(1.0, 2 * sum(math.comb(n, k) for k in range(least + 1)) / 2 ** n) if n else 1.0
    return first, second, p


def real_model(name):
    """The file of that name, or what scripts/fetch_models keeps under it; None where it cannot be fetched."""
    if pathlib.Path(name).is_file():
        return str(pathlib.Path(name).resolve())
    fetched = subprocess.run([ROOT / "scripts/fetch_models", name], stdout=subprocess.PIPE, text=True)
    if fetched.returncode not in (0, 3):  # 3: it cannot be fetched here
        give_up(f"'{name}' is no file, and scripts/fetch_models does not bring it")
    return fetched.stdout.strip() if fetched.returncode == 0 else None
