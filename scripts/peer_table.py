"""What scripts/measure_peers makes of its rows: medians, the faster setting of each point, and Pith's ratio to the best peer.

A row is what one process gave (COLUMNS); rows of one program, setting and point are its rounds.
"""
import csv
import os
import statistics

COLUMNS = ["peer", "setting", "kind", "tokens", "round", "tokens_per_s", "seconds", "rss_bytes", "others", "version", "isa", "wall_s"]
KINDS = ["prompt", "generate", "long"]
MEMORY = "memory"  # the key of rows that say how fast memory is read, GB/s
NUMBERS = {"tokens": int, "round": int, "tokens_per_s": float, "seconds": float, "rss_bytes": int, "others": lambda text: float(text) if text else None, "wall_s": float}


def read(path):
    """The rows of a file that is there; a last line that a stop cut short is left out."""
    if not os.path.exists(path):
        return []
    rows = []
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            try:
                rows.append({**row, **{name: number(row[name]) for name, number in NUMBERS.items()}})
            except (TypeError, ValueError, KeyError):
                pass
    return rows


def current(rows):
    """Those of the version of each program that was measured last."""
    version = {row["peer"]: row["version"] for row in rows}
    return [row for row in rows if row["version"] == version[row["peer"]]]


def append(path, row):
    with open(path, "a+", newline="") as file:
        file.seek(0)
        text = file.read()
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not text:
            writer.writeheader()
        elif not text.endswith("\n"):
            file.write("\n")
        writer.writerow(row)


def points(rows, kind):
    return sorted({row["tokens"] for row in rows if row["kind"] == kind})


def medians(rows, peer, kind, tokens):
    """Of each setting."""
    found = {}
    for row in rows:
        if (row["peer"], row["kind"], row["tokens"]) == (peer, kind, tokens):
            found.setdefault(row["setting"], []).append(row["tokens_per_s"])
    return {setting: statistics.median(rates) for setting, rates in found.items()}


def cell(rows, peer, kind, tokens):
    """The faster setting's median; None where nothing was measured."""
    rates = medians(rows, peer, kind, tokens)
    if not rates:
        return None
    setting = max(rates, key=rates.get)
    mine = [row for row in rows if (row["peer"], row["setting"], row["kind"], row["tokens"]) == (peer, setting, kind, tokens)]
    return {"setting": setting, "tokens_per_s": rates[setting], "rounds": len(mine), "samples": [row["tokens_per_s"] for row in mine],
            "seconds": statistics.median(row["seconds"] for row in mine), "rss_bytes": max(row["rss_bytes"] for row in mine)}


def summary(rows, peers, ours):
    """A list of points, in order: every program's cell, the best peer, and ratios to it."""
    peers = [key for key in peers if key != MEMORY]
    out = []
    for kind in KINDS:
        for tokens in points(rows, kind):
            cells = {key: one for key in peers if (one := cell(rows, key, kind, tokens))}
            theirs = {key: one["tokens_per_s"] for key, one in cells.items() if key not in ours}
            best = max(theirs, key=theirs.get) if theirs else None
            ratios = {key: cells[key]["tokens_per_s"] / theirs[best] for key in ours if key in cells and best}
            out.append({"kind": kind, "tokens": tokens, "programs": cells, "best_peer": best, "ratios": ratios})
    return out


def mebibytes(size):
    return f"{size / 2**20:,.0f} MiB"


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(line) + " |" for line in lines])


def of_the_limit(rows, every, reads):
    """{program: {depth: the share of what memory allows}}. reads: {program: f(depth)}, bytes a token."""
    shares = {}
    for point in every:
        limit = cell(rows, MEMORY, point["kind"], point["tokens"])
        for key, bytes_of in reads.items():
            if limit and key in point["programs"]:
                shares.setdefault(key, {})[point["tokens"]] = point["programs"][key]["tokens_per_s"] * bytes_of(point["tokens"]) / 1e9 / limit["tokens_per_s"]
    return shares


def markdown(rows, names, ours, reads):
    """names: of every program, by its key, in the table's order; those without a row are left out. reads: of of_the_limit()."""
    limits = {n: one["tokens_per_s"] for n in points(rows, "generate") if (one := cell(rows, MEMORY, "generate", n))}
    peers = {key: name for key, name in names.items() if key != MEMORY and any(row["peer"] == key for row in rows)}
    every = summary(rows, peers, ours)
    short, long = [one for one in every if one["kind"] != "long"], [one for one in every if one["kind"] == "long"]
    parts = []

    def rate(point, key):
        one = point["programs"].get(key)
        if one is None:
            return ""
        text = f"{one['tokens_per_s']:.1f}"
        if key == point["best_peer"]:
            text = f"**{text}**"
        return text + (f" ({one['setting']})" if one["setting"] and key not in ours else "")

    if short:
        head = [f"prompt of {one['tokens']:,}" if one["kind"] == "prompt" else f"generate behind {one['tokens']:,}" for one in short]
        lines = [[name] + [rate(one, key) for one in short] for key, name in peers.items()]
        lines += [[f"{names[key]} ÷ best peer"] + [f"{one['ratios'][key]:.2f}" if key in one["ratios"] else "" for one in short] for key in ours if key in peers]
        for key, shares in of_the_limit(rows, [one for one in short if one["kind"] == "generate"], reads).items():
            lines.append([f"{names[key]}, of what reading memory allows"] + [f"{100 * shares[one['tokens']]:.0f} %" if one["kind"] == "generate" and one["tokens"] in shares else "" for one in short])
        if limits:
            lines.append(["plainly reading memory"] + [f"{limits[one['tokens']]:.1f} GB/s" if one["kind"] == "generate" and one["tokens"] in limits else "" for one in short])
        parts.append("Tokens a second:\n\n" + table(["", *head], lines))
        memory = [[name] + [mebibytes(one["programs"][key]["rss_bytes"]) if key in one["programs"] else "" for one in short] for key, name in peers.items()]
        parts.append("Most resident memory:\n\n" + table(["", *head], memory))
    for point in long:
        lines = [[names[key], f"{one['seconds']:,.0f}", rate(point, key), mebibytes(one["rss_bytes"])] for key, one in point["programs"].items()]
        lines += [[f"{names[key]} ÷ best peer", "", f"{ratio:.2f}", ""] for key, ratio in point["ratios"].items()]
        parts.append(f"A prompt of {point['tokens']:,} tokens:\n\n" + table(["", "seconds", "tokens a second", "most resident memory"], lines))
    about = []
    for key, name in peers.items():
        last = [row for row in rows if row["peer"] == key][-1]
        rounds = sorted({one["programs"][key]["rounds"] for one in every if key in one["programs"]})
        about.append(f"{name}: {last['version']}, {last['isa']}; medians of {'-'.join(str(n) for n in {rounds[0]: 0, rounds[-1]: 0})}")
    parts.append("\n".join(f"- {line}" for line in about))
    return "\n\n".join(parts)
