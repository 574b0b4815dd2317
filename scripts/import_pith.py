"""python/pith.py for scripts, with the library that `scripts/build pith_c` makes and the loader that this needs."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def import_pith():
    """The module. Where scripts/setup has unpacked a C library, the script begins anew through the loader that came with it."""
    loaders = sorted((ROOT / ".deps/forky/usr/lib").glob("*-linux-gnu/ld-linux-*.so.*"))
    if loaders and os.environ.pop("PITH_LOADED", None) is None:
        command = [str(loaders[0]), "--library-path", str(loaders[0].parent), sys.executable, *sys.argv]
        os.execve(command[0], command, {**os.environ, "PITH_LOADED": "1"})
    sys.path.insert(0, str(ROOT / "python"))
    import pith

    return pith
