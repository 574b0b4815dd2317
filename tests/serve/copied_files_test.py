"""What docs/ gives to be copied: YAML and units that can be read, volumes that there are, flags that the program knows.

  copied_files_test.py DOCS PITH      (YAML alone is left out where Python has no yaml)
"""
import configparser
import pathlib
import re
import subprocess
import sys
import textwrap

try:
    import yaml
except ImportError:
    yaml = None

PAGES = ["deploy.md", "evaluate.md", "serving.md"]
COMMAND = re.compile(r"\bpith (serve|eval(?: (?:merge|report|compare|score))?)\b([^|>#\n]*)")
problems = []
n_checked = 0


def blocks(text):
    """Indented ones, without their indentation."""
    for found in re.finditer(r"(?:^(?: {4}.*)?\n)+", text, re.M):
        block = textwrap.dedent(found.group(0)).strip("\n")
        if block:
            yield block + "\n"


def check_flags(where, pith, command, words):
    global n_checked
    told = subprocess.run([pith, *command.split(), "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--[a-z][a-z-]*", told))
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", words):
        n_checked += 1
        if flag not in known:
            problems.append(f"{where}: pith {command} has no {flag}")


def check_pods(where, pith, document):
    pod = document.get("spec", {}).get("template", {}).get("spec")
    if pod is None:
        return
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        if mounted != volumes:
            problems.append(f"{where}: volumes {sorted(volumes)}, mounted are {sorted(mounted)}")
        if "command" not in container:  # the image's own: pith serve
            check_flags(where, pith, "serve", " ".join(container["args"]))
    labels = document["spec"].get("selector", {}).get("matchLabels", {})
    if not labels.items() <= document["spec"]["template"].get("metadata", {}).get("labels", {}).items():
        problems.append(f"{where}: the selector finds no pod of its own")


def check_block(where, pith, block):
    global n_checked
    first = block.split("\n", 1)[0]
    if re.match(r"(apiVersion|scrape_configs|groups):", first) and yaml is not None:
        for document in yaml.safe_load_all(block):
            n_checked += 1
            check_pods(where, pith, document)
    if first == "[Unit]":
        n_checked += 1
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str
        unit.read_string(block)
        if "ExecStart" not in unit["Service"]:
            problems.append(f"{where}: the unit starts nothing")
    for command, words in COMMAND.findall(re.sub(r"\\\n\s*", " ", block)):
        check_flags(where, pith, command, words)


def main():
    docs, pith = pathlib.Path(sys.argv[1]), sys.argv[2]
    for page in PAGES:
        for block in blocks((docs / page).read_text()):
            try:
                check_block(page, pith, block)
            except (configparser.Error, KeyError) if yaml is None else (configparser.Error, KeyError, yaml.YAMLError) as error:
                problems.append(f"{page}: {block.splitlines()[0]}: {error!r}")
    for problem in problems:
        print(problem)
    print(f"{n_checked} flags and files" + ("" if yaml else ", YAML left out"))
    return 1 if problems or n_checked < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
