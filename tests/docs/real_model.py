"""Where scripts/fetch_models keeps a model; a path stays one."""
import pathlib
import subprocess
import sys

FETCH = pathlib.Path(__file__).resolve().parents[2] / "scripts/fetch_models"


def find(name):
    if "/" in str(name) or pathlib.Path(name).exists():
        return pathlib.Path(name).resolve()
    done = subprocess.run([FETCH, name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: {name} cannot be fetched: {done.stderr.strip()[-200:]}")
        sys.exit(77)
    return pathlib.Path(done.stdout.strip().splitlines()[-1])
