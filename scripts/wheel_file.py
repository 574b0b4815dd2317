#!/usr/bin/env python3
"""Makes a Python wheel of an installed Pith: scripts/wheel calls it.
    scripts/wheel_file.py TREE FOLDER [--unpacked ROOT…]     TREE: of `cmake --install`, with ggml's libraries in it
Of TREE the programs, the libraries and the models go in, under the names that the loader looks for, since a wheel holds no links;
beside them what these want of other packages, with its licence (ROOT: where Debian packages were unpacked; else the system's).
The C and C++ libraries are the system's: the wheel's tag names the oldest glibc that has every symbol. The same files give the same
bytes (SOURCE_DATE_EPOCH: their time).
"""
import argparse
import base64
import hashlib
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What a manylinux wheel may take from any system (PEP 600), by its soname.
OF_THE_SYSTEM = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\+\+)\.so\.\d+$")
COMPILED_IN = ("libcli11-dev", "nlohmann-json3-dev", "libminja-dev")  # headers alone; those from source bring their own text
# The first glibc whose systems had a libstdc++ with these symbols, which says nothing of glibc itself.
GLIBC_OF_LIBSTDCXX = {"3.4.29": "2.34", "3.4.30": "2.35", "3.4.31": "2.38", "3.4.32": "2.38", "3.4.33": "2.39"}


def fail(message):
    sys.exit(f"wheel: error: {message}")


def as_numbers(version):
    return tuple(int(part) for part in version.split("."))


def objdump(option, file):
    result = subprocess.run(["objdump", option, str(file)], capture_output=True, text=True)
    if result.returncode != 0:
        fail(f"'objdump {option} {file}' failed: {result.stderr.strip().splitlines()[-1]}")
    return result.stdout


def is_elf(file):
    with open(file, "rb") as opened:
        return opened.read(4) == b"\x7fELF"


class Licences:
    """Texts for the wheel, and a list of what came from which Debian package."""

    def __init__(self, tree, roots):
        self.roots = roots
        self.texts = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
        self.lines = []
        for file in sorted((tree / "share/doc/pith/licences").glob("*.txt")):
            self.texts[file.name] = file.read_bytes()
        for package in COMPILED_IN:
            self.add_package("(compiled in)", package)

    def add_package(self, what, package):
        """False: it is not here. A copyright names licences of which Debian has one copy for all packages."""
        for root in self.roots:
            file = root / "usr/share/doc" / package / "copyright"
            if not file.exists():
                continue
            self.texts[f"{package}.txt"] = file.read_bytes()
            for name in set(re.findall(rb"/usr/share/common-licenses/([A-Za-z0-9.-]*[A-Za-z0-9])", file.read_bytes())):
                common = pathlib.Path("/usr/share/common-licenses") / name.decode()
                if common.exists():
                    self.texts[f"{common.name}.txt"] = common.read_bytes()
            self.lines.append(f"{what}  {package}\n")
            return True
        return False


def where_is(soname, folders, system):
    for folder in folders:
        if (folder / soname).exists():
            return folder / soname
    if soname in system:
        return pathlib.Path(system[soname])
    fail(f"'{soname}' is wanted, and neither in the tree nor on this system")


def system_libraries():
    text = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^\s+(\S+) \(libc6,x86-64\S*\) => (\S+)$", text, re.MULTILINE))


def collect(tree, roots, licences):
    """The wheel's files, by their path in the package."""
    files = {"__init__.py": tree / "share/pith/python/pith.py", "__main__.py": ROOT / "python/wheel/__main__.py"}
    for model in sorted((tree / "share/pith/models").iterdir()):
        files[f"share/pith/models/{model.name}"] = model
    for file in sorted((tree / "share/pith/sample").glob("*")):
        files[f"share/pith/sample/{file.name}"] = file
    for name in ("pith", "pith-lab"):
        files[f"bin/{name}"] = tree / "bin" / name
    files["lib/libpith.so"] = tree / "lib/libpith.so"
    for module in sorted((tree / "lib").glob("libggml-*.so")):
        if not re.search(r"SONAME +\S+\.so\.", objdump("-p", module)):  # what is opened by its file's name
            files[f"lib/{module.name}"] = module
    for path in files.values():
        if not path.exists():
            fail(f"'{path}' is missing: is '{tree}' what `cmake --install` makes?")
    system = system_libraries()
    own = [tree / "lib", tree / "lib/pith"]
    unpacked = [folder for root in roots for folder in sorted(root.glob("usr/lib/*-linux-gnu")) if root != pathlib.Path("/")]
    todo = [path for path in files.values() if is_elf(path)]
    while todo:
        for soname in re.findall(r"NEEDED +(\S+)", objdump("-p", todo.pop(0))):
            if OF_THE_SYSTEM.match(soname) or f"lib/{soname}" in files:
                continue
            path = where_is(soname, own + unpacked, system)
            package = re.sub(r"\.so\.(\d+)$", r"\1", soname).lower()  # Debian's name for it: libedit2 has libedit.so.2
            if path.parent != own[0] and not licences.add_package(soname, package):
                fail(f"no licence of '{path}': no package {package} is here")
            files[f"lib/{soname}"] = path
            todo.append(path)
    return files


def glibc_wanted(files):
    """The version for the tag, and the file that wants it."""
    newest, whose = "2.17", None
    for path in files.values():
        if not is_elf(path):
            continue
        symbols = objdump("-T", path)
        versions = set(re.findall(r"\bGLIBC_([0-9.]+)", symbols))
        for version in set(re.findall(r"\bGLIBCXX_(3\.4\.[0-9]+)", symbols)):
            if as_numbers(version) > (3, 4, 28):
                versions.add(GLIBC_OF_LIBSTDCXX.get(version) or fail(f"which glibc goes with GLIBCXX_{version} of '{path}' is not known"))
        for version in versions:
            if as_numbers(version) > as_numbers(newest):
                newest, whose = version, path
    return newest, whose


def check_run_paths(files):
    """A library is looked for beside what wants it, and nowhere that only this machine has."""
    for path in files.values():
        if not is_elf(path):
            continue
        for folders in re.findall(r"R(?:UN)?PATH +(\S+)", objdump("-p", path)):
            for folder in folders.split(":"):
                if not folder.startswith("$ORIGIN"):
                    fail(f"'{path}' looks for libraries in '{folder}', which other machines do not have")
        if str(ROOT).encode() + b"/" in path.read_bytes():
            fail(f"'{path}' names this repository's folder")


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def write_wheel(file, entries, record, when):
    """entries: (name, bytes, whether it is a program)."""
    lines = "".join(record_line(name, data) for name, data, _ in entries) + f"{record},,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data, is_program in [*entries, (record, lines.encode(), False)]:
            info = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if is_program else 0o100644) << 16
            wheel.writestr(info, data)
    part = file.with_name(file.name + ".part")
    part.write_bytes(buffer.getvalue())
    part.replace(file)


def metadata(version, licences):
    lines = ["Metadata-Version: 2.1", "Name: pith", f"Version: {version}", "Summary: LLM inference inside a hard KV-cache budget",
             "License: MIT; bundled libraries under their own licences, which are included", "Requires-Python: >=3.8",
             "Description-Content-Type: text/markdown"]
    lines += [f"License-File: {name}" for name in sorted(licences)]
    text = (ROOT / "docs/install.md").read_text()
    return "\n".join(lines) + "\n\n" + text


def main():
    parser = argparse.ArgumentParser(description="a wheel of an installed Pith")
    parser.add_argument("tree", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--unpacked", type=pathlib.Path, nargs="*", default=[], metavar="ROOT")
    given = parser.parse_args()
    if shutil.which("objdump") is None:
        fail("objdump is missing; install binutils")
    version = re.search(r"^project\(pith VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    if not given.tree.is_dir():
        fail(f"'{given.tree}' is no folder")

    roots = [*given.unpacked, pathlib.Path("/")]
    licences = Licences(given.tree, roots)
    files = collect(given.tree, roots, licences)
    check_run_paths(files)
    glibc, whose = glibc_wanted(files)
    here = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    if as_numbers(glibc) > as_numbers(here):
        fail(f"'{whose}' wants glibc {glibc} and this system has {here}: build everything here, from source")
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"

    info = f"pith-{version}.dist-info"
    licences.texts["libraries.txt"] = ("Bundled library, its Debian package\n\n" + "".join(sorted(licences.lines))).encode()
    entries = [(f"pith/{name}", path.read_bytes(), name.startswith("bin/")) for name, path in sorted(files.items())]
    entries += [("pith_programs.py", (ROOT / "python/wheel/pith_programs.py").read_bytes(), False)]
    entries += [(f"{info}/licenses/{name}", data, False) for name, data in sorted(licences.texts.items())]
    entries += [(f"{info}/{name}", text.encode(), False) for name, text in (
        ("METADATA", metadata(version, licences.texts)),
        ("WHEEL", f"Wheel-Version: 1.0\nGenerator: scripts/wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"),
        ("entry_points.txt", "[console_scripts]\npith = pith_programs:pith\npith-lab = pith_programs:pith_lab\n"))]
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / f"pith-{version}-{tag}.whl"
    write_wheel(file, entries, f"{info}/RECORD", int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    print(file)


if __name__ == "__main__":
    main()
