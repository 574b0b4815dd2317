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
        self.replies, self.asked, self.choices = list(replies), [], []

    def json(self, path, body):
        self.choices.append(body["tool_choice"])
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
        self.assertGreaterEqual(len([one for one in TASKS if not one.shown]), 12)
        for one in TASKS:
            self.assertEqual(one.failure(one.right), "", one.name)
            self.assertIn("Error", one.failure(one.broken), one.name)

    def test_an_edit_that_repairs_ends_the_task(self):
        one = self.attempt("recent", call("edit_file", path="recent.py", old_text="popitem()", new_text="popitem(last=False)"))
        self.assertTrue(one["repaired"])
        self.assertEqual((one["steps"], one["calls"], one["valid"]), (1, 1, 1))
        self.assertIn("b was used longest ago", self.model.asked[0][-1]["content"])

    def test_a_text_that_is_not_there_is_told_and_a_second_try_counts(self):
        one = self.attempt("recent", call("edit_file", path="recent.py", old_text="self.entries.pop_item()", new_text=""), call("read_file", path="recent.py"),
                           call("edit_file", path="recent.py", old_text=task("recent").old_line, new_text=task("recent").new_line))
        self.assertTrue(one["repaired"])
        self.assertEqual((one["steps"], one["edits"], one["found"]), (3, 2, 1))
        self.assertIn("does not stand exactly once in recent.py, which is:\n" + task("recent").broken, self.results()[0])
        self.assertEqual(self.results()[1], task("recent").broken)

    def test_another_module_cannot_be_changed_and_a_wrong_edit_fails_the_test(self):
        one = self.attempt("recent", call("edit_file", path="words.py", old_text="import re", new_text=""),
                           call("edit_file", path="recent.py", old_text="self.entries.popitem()", new_text="pass"), {"content": "Done."}, steps=3)
        self.assertFalse(one["repaired"])
        self.assertEqual((one["texts"], one["edits"], one["found"]), (1, 2, 1))
        self.assertIn("must stay as it is", self.results()[0])
        self.assertIn("The test fails: AssertionError", self.results()[1])

    def test_calls_without_their_arguments_are_not_valid(self):
        broken = {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "edit_file", "arguments": '{"path'}}]}
        one = self.attempt("recent", broken, call("run", command="x"), call("edit_file", path="recent.py"), call("read_file", path="nothing.py"))
        self.assertEqual((one["calls"], one["valid"], one["steps"]), (4, 1, 4))
        self.assertIn("not JSON", self.results()[0])
        self.assertIn("no tool run", self.results()[1])
        self.assertIn("old_text is missing", self.results()[2])

    def test_a_reply_is_an_edit_unless_told_otherwise(self):
        self.attempt("recent", {"content": "Done."}, steps=1, tool_choice="edit")
        self.assertEqual(self.model.choices, [{"type": "function", "function": {"name": "edit_file"}}])
        self.attempt("recent", {"content": "Done."}, steps=1, tool_choice="required")
        self.assertEqual(self.model.choices, ["required"])

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

    def test_the_conversation_holds_every_broken_module_and_is_the_same_for_a_seed(self):
        one = measure_repairs.conversation(3, TASKS, 24000)
        text = json.dumps(one)
        calls = [json.loads(call["function"]["arguments"]) for message in one for call in message.get("tool_calls", [])]
        repaired = [arguments["new_text"] for arguments in calls if "new_text" in arguments]
        for each in TASKS:
            self.assertIn(json.dumps(each.broken)[1:-1], text)
            self.assertEqual(each.new_line in repaired, each.shown, each.name)
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
