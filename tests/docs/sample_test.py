"""The sample (examples/sample) is what its README says: answers that stand in the text, a schema that is followed, a tool with its call.

  sample_test.py SAMPLE PITH [MODEL]      with a trained MODEL: it knows the answers, within half of the cache, too, and calls the tool
"""
import json
import pathlib
import subprocess
import sys

import real_model

SAMPLE, PITH = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
MODEL = [real_model.find(name) for name in sys.argv[3:]]


def pith(*words):
    done = subprocess.run([PITH, "run", *(["-m", MODEL[0]] if MODEL else []), "--temp", "0", *words], cwd=SAMPLE, capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(name):
    return (SAMPLE / name).read_text(encoding="utf-8")


questions, answers = read("questions.txt").splitlines(), read("answers.txt").splitlines()
assert len(questions) == len(answers) == 3
for word in answers:
    assert word in read("book.txt"), word
    assert not any(word in question for question in questions), word

schema = json.loads(read("schema.json"))
said = json.loads(pith("-f", "book.txt", "-p", "Who, where, which cabin?", "--json-schema-file", "schema.json", "-n", "200"))
assert said.keys() == schema["properties"].keys() and isinstance(said["cabin"], int), said

tools, request = json.loads(read("tools.json")), json.loads(read("tool_call.json"))
call = request["messages"][1]["tool_calls"][0]
assert call["function"]["name"] == tools[0]["function"]["name"] == request["tools"][0]["function"]["name"]
assert json.loads(call["function"]["arguments"]).keys() <= tools[0]["function"]["parameters"]["properties"].keys()
assert request["messages"][2]["tool_call_id"] == call["id"]

if MODEL:
    for budget in ([], ["--budget", "50%"]):
        asked = [word for question in questions for word in ("-p", question)]  # one reading for all
        told = [one["text"] for one in json.loads(pith("-f", "book.txt", *asked, "-n", "48", "--json", *budget))["answers"]]
        n_right = sum(word in answer for word, answer in zip(answers, told))
        print(f"{' '.join(budget) or 'all'}: {told}", flush=True)
        assert n_right >= 2, f"{n_right} of 3 with {budget or 'the whole cache'}"
    called = pith("-p", "How strong is the wind on Skarn?", "--tools", "tools.json", "-n", "64")
    print(called)
    assert "get_weather" in called and "Skarn" in called, called
print("ok")
