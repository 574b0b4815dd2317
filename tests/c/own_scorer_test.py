"""own_scorer_test.py - examples/own_scorer.py, which needs numpy (77: it is missing), on a few samples that `pith eval` writes.

  own_scorer_test.py PITH MODEL.gguf     (PITH_LIBRARY: the library)
"""
import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "python"))
try:
    import numpy  # noqa: F401
except ImportError:
    print("numpy is missing: skipped")
    sys.exit(77)

program, model = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    samples = os.path.join(folder, "samples.jsonl")
    subprocess.run([program, "eval", "world", "-m", model, "--tasks", "facts", "--context", "400", "--samples", "3", "--question-aware",
                    "--with-tokens", "--write-samples", samples], check=True, stdout=subprocess.DEVNULL)
    sys.argv = ["own_scorer.py", model, samples, "30%"]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        runpy.run_path(os.path.join(ROOT, "examples", "own_scorer.py"), run_name="__main__")
print(said.getvalue())
kept = re.search(r"my-snapkv keeps (\d+) of the (\d+) entries", said.getvalue())
assert kept and kept[1] == kept[2] and int(kept[1]) > 100, "the check"
for policy in ("full", "snapkv", "snapkv:pool=avg45:pool_over=before", "my-vatp", "my-vatp+ada"):
    row = re.search(rf"^{re.escape(policy)} +([0-3])  ", said.getvalue(), re.M)
    assert row, f"no row of {policy}"
