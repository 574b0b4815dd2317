"""`pith` and `pith-lab` of a wheel, which lie in the package's folder: this process becomes one. A module of its own, since whoever
imports the package loads the library."""
import os
import sys


def _become(name):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pith", "bin", name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"pith: cannot start '{program}': {error.strerror}: install Pith again")


def pith():
    _become("pith")


def pith_lab():
    _become("pith-lab")
