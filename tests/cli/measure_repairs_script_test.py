#!/usr/bin/env python3
"""scripts/measure_repairs without a model: replies made here instead of the server's.   measure_repairs_script_test.py ROOT"""
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
loader = importlib.machinery.SourceFileLoader("measure_repairs", str(ROOT / "scripts/measure_repairs"))
measure_repairs = importlib.util.module_from_spec(importlib.util.spec_from_loader("measure_repairs", loader))
loader.exec_module(measure_repairs)
TASKS = measure_repairs.tasks()


def task(name):
    return next(one for one in TASKS if one.name == name)


def call(name, **arguments):
    return {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]}


class Model:
    """Says what it is given, and keeps what it was asked."""

    def __init__(self, *replies):
        self.replies, self.asked = list(replies), []

    def json(self, path, body):
        self.asked.append([dict(message) for message in body["messages"]])
        for message in body["messages"]:
            for one in message.get("tool_calls") or []:
                assert isinstance(json.loads(one["function"]["arguments"]), dict), "the server refuses that"
        return {"choices": [{"message": self.replies.pop(0)}], "usage": {"prompt_tokens": 9, "kv_bytes": 1, "kv_full_bytes": 4}}


class Ways(unittest.TestCase):
    def test_have_a_budget_a_type_and_one_of_what_is_evicted(self):
        self.assertEqual(measure_repairs.parts("full"), ("full", "f16", ""))
        self.assertEqual(measure_repairs.parts("10%:q4_0"), ("10%", "q4_0", ""))
        self.assertEqual(measure_repairs.parts("2048:q8_0:q4_0"), ("2048", "q8_0", "q4_0"))
        for wrong in ("", ":q8_0", "2048:q8_0:q8_0:q8_0"):
            with self.assertRaises(SystemExit, msg=wrong):
                measure_repairs.parts(wrong)


class Attempts(unittest.TestCase):
    def attempt(self, name, *replies, steps=4, tool_choice="auto"):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        options = types.SimpleNamespace(model="m", tokens=8000, steps=steps, policy="auto", tool_choice=tool_choice, seeds=1, ways=["full", "2048"], output=self.folder.name)
        self.repairs = measure_repairs.Repairs(options, TASKS)
        self.repairs.server = self.model = Model(*replies)
        return self.repairs.attempt([], task(name), "2048")

    def results(self):
        return [message["content"] for message in self.model.asked[-1] if message["role"] == "tool"]

    def test_every_fault_fails_its_test_and_the_repair_passes_it(self):
        self.assertGreaterEqual(len(TASKS), 12)
        for one in TASKS:
            self.assertEqual(one.failure(one.right), "", one.name)
            self.assertIn("Error", one.failure(one.broken), one.name)

    def test_an_edit_that_repairs_ends_the_task(self):
        one = self.attempt("recent", call("edit_file", path="recent.py", old_text="popitem()", new_text="popitem(last=False)"))
        self.assertTrue(one["repaired"])
        self.assertEqual((one["steps"], one["calls"], one["valid"]), (1, 1, 1))
        self.assertIn("b was used longest ago", self.model.asked[0][-1]["content"])

    def test_a_text_that_is_not_there_is_told_and_a_second_try_counts(self):
        one = self.attempt("recent", call("edit_file", path="recent.py", old_text="pop_item()", new_text=""), call("read_file", path="recent.py"),
                           call("write_file", path="recent.py", text=task("recent").right))
        self.assertTrue(one["repaired"])
        self.assertEqual((one["steps"], one["reads"]), (3, 1))
        self.assertIn("stands 0 times", self.results()[0])
        self.assertEqual(self.results()[1], task("recent").broken)

    def test_neither_the_test_nor_another_module_can_be_changed(self):
        one = self.attempt("recent", call("write_file", path="recent_test.py", text=""), call("write_file", path="words.py", text=""), {"content": "Done."}, steps=3)
        self.assertFalse(one["repaired"])
        self.assertEqual(one["texts"], 1)
        self.assertIn("must stay as it is", self.results()[0])
        self.assertIn("must stay as it is", self.results()[1])

    def test_calls_without_their_arguments_are_not_valid(self):
        broken = {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "edit_file", "arguments": '{"path'}}]}
        one = self.attempt("recent", broken, call("run", command="x"), call("edit_file", path="recent.py"), call("read_file", path="nothing.py"))
        self.assertEqual((one["calls"], one["valid"], one["steps"]), (4, 1, 4))
        self.assertIn("not JSON", self.results()[0])
        self.assertIn("no tool run", self.results()[1])
        self.assertIn("old_text is missing", self.results()[2])

    def test_without_tools_the_block_of_a_reply_is_the_module(self):
        right = task("intervals").right
        self.assertTrue(self.attempt("intervals", {"content": f"So:\n```python\n{right}```\nDone."}, tool_choice="none")["repaired"])
        one = self.attempt("intervals", {"content": "I repair it."}, {"content": "```python\nmerge = 1\n```"}, tool_choice="none", steps=2)
        self.assertFalse(one["repaired"])
        self.assertEqual([m["content"] for m in self.model.asked[-1] if m["role"] == "user"][-1], "There is no ```python block.")

    def test_leaving_before_the_end_is_no_repair(self):
        self.assertNotEqual(task("recent").failure("import os\nos._exit(0)"), "")

    def test_text_that_no_file_can_hold_is_a_failure(self):
        self.assertNotEqual(task("recent").failure("x = '\ud83d'"), "")

    def test_what_is_printed_without_end_is_cut(self):
        self.assertLess(len(task("recent").failure("import sys\nwhile True: sys.stderr.write('x' * 65536)")), 2000)

    def test_code_that_does_not_end_is_a_failure(self):
        measure_repairs.RUN_SECONDS, before = 1, measure_repairs.RUN_SECONDS
        try:
            self.assertNotEqual(task("recent").failure("while True: pass"), "")
        finally:
            measure_repairs.RUN_SECONDS = before

    def test_the_conversation_holds_every_broken_file_and_is_the_same_for_a_seed(self):
        one = measure_repairs.conversation(3, TASKS, 24000)
        text = json.dumps(one)
        for each in TASKS:
            self.assertIn(json.dumps(each.broken)[1:-1], text)
        self.assertEqual(one, measure_repairs.conversation(3, TASKS, 24000))
        self.assertNotEqual(one, measure_repairs.conversation(4, TASKS, 24000))


class Kept(unittest.TestCase):
    def test_a_folder_of_other_answers_is_refused(self):
        answers = sys.modules["agent_session"].Answers
        with tempfile.TemporaryDirectory() as folder:
            answers(folder, {"model": "a"}).add(("full", 0, "x"), repaired=True)
            self.assertEqual(answers(folder, {"model": "a"}).get("full", 0, "x")["repaired"], True)
            with self.assertRaises(SystemExit):
                answers(folder, {"model": "b"})


class Paired(unittest.TestCase):
    def test_of_pairs_that_differ_all_one_way(self):
        paired = sys.modules["agent_session"].paired
        self.assertEqual(paired([(True, False)] * 6 + [(True, True)] * 9), (6, 0, 2 / 64))
        self.assertEqual(paired([(True, False), (False, True)]), (1, 1, 1.0))
        self.assertEqual(paired([]), (0, 0, 1.0))


unittest.main()
