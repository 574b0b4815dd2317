#!/usr/bin/env python3
"""scripts/real_tables on runs that are made here.   real_tables_script_test.py ROOT"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))


def make_run(folder, scores, is_complete=True):
    """scores: {(policy, sample): score}"""
    folder.mkdir(parents=True)
    with open(folder / "answers.jsonl", "w", encoding="utf-8") as file:
        for (policy, sample), score in scores.items():
            budget = "" if policy == "full" else "10%"
            file.write(json.dumps({"task": "t", "sample": str(sample), "turn": 0, "policy": policy, "budget": budget, "score": score}) + "\n")
    (folder / "run.json").write_text(json.dumps({"settings": {}}))
    if is_complete:
        (folder / "table.csv").write_text("")


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.runs, self.results = pathlib.Path(folder.name, "runs"), pathlib.Path(folder.name, "results")

    def tables(self):
        """{run: {policy: its row}}, and what was said."""
        done = subprocess.run([ROOT / "scripts/real_tables", "--beside", "full", self.runs, self.results], capture_output=True, text=True, check=True)
        files = {path.stem: list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) for path in self.results.glob("*.csv")}
        return {run: {row["policy"]: row for row in rows} for run, rows in files.items()}, done.stderr

    def test_a_run_in_parts_is_those_that_are_complete(self):
        make_run(self.runs / "cold-large.1-later", {("full", 0): 1, ("keydiff", 0): 0})
        make_run(self.runs / "cold-large.2-later", {("full", 1): 1, ("keydiff", 1): 1})
        make_run(self.runs / "cold-large.10-later", {("full", 9): 0, ("keydiff", 9): 1})
        make_run(self.runs / "cold-large.3-later", {("full", 2): 1, ("keydiff", 2): 0}, is_complete=False)
        make_run(self.runs / "cold-small-later", {("full", 0): 1, ("keydiff", 0): 1})
        tables, said = self.tables()
        self.assertEqual(sorted(tables), ["real-cold-large-later", "real-cold-small-later"])
        self.assertIn("cold-large.3-later is not complete: left out", said)
        row = tables["real-cold-large-later"]["keydiff"]
        self.assertEqual((row["run"], row["samples"], row["score"], row["full"]), ("cold-large-later", "3", "66.7", "66.7"))
        self.assertEqual(row["difference"], "+0.0")
        self.assertEqual(tables["real-cold-small-later"]["keydiff"]["samples"], "1")


unittest.main()
