"""What scripts/result_tables and scripts/real_figure read: the CSV files of docs/results."""
import csv
import pathlib
import re

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "docs/results"


def rows_of(name, results=RESULTS):
    with open(results / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def policy_of(row):
    """And whether it was auto's choice."""
    policy = re.sub(r"^auto \((.*)\)$", r"\1", row["policy"])
    return policy, policy != row["policy"]
