"""scripts/wheel_file.py on a small tree of this machine's compiler, whose programs only say how they were called. Run by ctest:
    wheel_test.py CXX      scripts/test_wheel tries a whole wheel."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CXX = sys.argv.pop() if len(sys.argv) > 1 else "c++"
PROGRAM = '#include <stdio.h>\nint name(void);\nint main(int n, char ** v) { return printf("%s %d\\n", n > 1 ? v[1] : "", name()) < 0; }\n'


class Tree:
    """As `cmake --install` makes it: bin/pith and bin/pith-lab want lib/libllama.so.0, as lib/libpith.so does; a back end; a model."""

    def __init__(self, folder):
        self.root = folder / "tree"
        self.work = folder
        for name in ("bin", "lib", "share/pith/python", "share/pith/models", "share/doc/pith/licences"):
            (self.root / name).mkdir(parents=True)
        (self.root / "share/pith/models/tiny.gguf").write_text("a model")
        (self.root / "share/doc/pith/licences/llama_cpp.txt").write_text("terms of llama.cpp")
        (self.root / "share/pith/python/pith.py").write_text(
            "import ctypes, os\nname = ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib/libpith.so')).name\n")
        self.compile("lib/libllama.so.0", "int name(void) { return 7; }", "-shared", "-Wl,-soname,libllama.so.0")
        (self.root / "lib/libllama.so").symlink_to("libllama.so.0")
        self.compile("lib/libpith.so", "int name(void); int other(void) { return name(); }", "-shared", "-Wl,-soname,libpith.so.0", *self.links("$ORIGIN"))
        self.compile("lib/libggml-cpu-x64.so", "int back_end;", "-shared")
        self.program("$ORIGIN/../lib")

    def links(self, run_path):
        return "-Wl,--no-as-needed", f"-Wl,-rpath,{run_path}", self.root / "lib/libllama.so.0"

    def program(self, run_path):
        self.compile("bin/pith", PROGRAM, *self.links(run_path))
        shutil.copy(self.root / "bin/pith", self.root / "bin/pith-lab")

    def compile(self, name, source, *options):
        file = self.work / "source.c"
        file.write_text(source)
        subprocess.run([CXX, "-x", "c", file, "-fPIC", "-o", self.root / name, "-x", "none", *options], check=True)

    def wheel(self, folder, time="1700000000"):
        return subprocess.run([sys.executable, ROOT / "scripts/wheel_file.py", self.root, folder], capture_output=True, text=True,
                              env={**os.environ, "SOURCE_DATE_EPOCH": time})


class Wheel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tree = Tree(self.folder)

    def make(self):
        result = self.tree.wheel(self.folder / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        return pathlib.Path(result.stdout.strip())

    def refused(self, pattern):
        result = self.tree.wheel(self.folder / "out")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, rf"\Awheel: error: [^\n]*{pattern}[^\n]*\n\Z")
        self.assertFalse((self.folder / "out").exists())

    def test_pip_installs_it_and_removes_all_of_it(self):
        wheel = self.make()
        python = self.folder / "here/bin/python"
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "venv", self.folder / "here"], check=True)
        subprocess.run([*pip, "install", "--quiet", "--no-index", wheel], check=True)
        for command in (["pith"], ["pith-lab"], ["python", "-m", "pith"]):
            said = subprocess.run([self.folder / "here/bin" / command[0], *command[1:], "a b"], capture_output=True, text=True, check=True)
            self.assertEqual(said.stdout, "a b 7\n")
        # Every file is as RECORD says.
        check = ("import base64, hashlib, importlib.metadata as m\n"
                 "for f in m.files('pith'):\n"
                 "    if f.hash: assert base64.urlsafe_b64encode(hashlib.sha256(f.locate().read_bytes()).digest()).rstrip(b'=').decode() == f.hash.value, f\n"
                 "import pith; print(pith.name())")
        self.assertEqual(subprocess.run([python, "-c", check], capture_output=True, text=True, check=True).stdout, "7\n")
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "pith"], check=True)
        self.assertEqual([path for path in (self.folder / "here").rglob("*") if "pith" in path.name], [])

    def test_the_same_tree_gives_the_same_bytes(self):
        first = self.make().read_bytes()
        os.utime(self.tree.root / "bin/pith", (1, 1))
        self.assertEqual(self.make().read_bytes(), first)

    def test_it_holds_what_is_wanted_once_and_the_licences(self):
        with zipfile.ZipFile(self.make()) as wheel:
            names = wheel.namelist()
            self.assertEqual([name for name in names if name.startswith("pith/lib/")], ["pith/lib/libggml-cpu-x64.so", "pith/lib/libllama.so.0", "pith/lib/libpith.so"])
            self.assertIn("terms of llama.cpp", wheel.read(next(name for name in names if name.endswith("/llama_cpp.txt"))).decode())
            self.assertTrue(wheel.getinfo("pith/bin/pith").external_attr >> 16 & 0o111)

    def test_a_newer_c_library_than_this_systems_is_refused(self):
        script = self.folder / "versions"
        script.write_text("GLIBC_9.99 { global: newest; };\n")
        self.tree.compile("lib/libm.so.6", "int newest(void) { return 0; }", "-shared", "-nostdlib", "-Wl,-soname,libm.so.6", f"-Wl,--version-script={script}")
        self.tree.compile("lib/libpith.so", "int newest(void); int name(void) { return newest(); }", "-shared", self.tree.root / "lib/libm.so.6")
        self.refused(r"libpith\.so' wants glibc 9\.99 and this system has [0-9.]+: build everything here")

    def test_a_run_path_that_only_this_machine_has_is_refused(self):
        self.tree.program("/opt/elsewhere")
        self.refused(r"bin/pith' looks for libraries in '/opt/elsewhere'")

    def test_a_tree_without_the_program_is_refused(self):
        (self.tree.root / "bin/pith-lab").unlink()
        self.refused(r"bin/pith-lab' is missing: is '.*' what `cmake --install` makes\?")


if __name__ == "__main__":
    unittest.main()
