"""The order in which tasks can be done."""


def order(needs):
    """Tasks so that each comes behind all that it needs. `needs` maps a task to the tasks it needs; a circle is a ValueError."""
    done, open_ones, out = set(), set(), []

    def visit(task):
        if task in done:
            return
        if task in open_ones:
            raise ValueError(f"{task} needs itself")
        open_ones.add(task)
        for need in sorted(needs.get(task, [])):
            visit(need)
        open_ones.discard(task)
        done.add(task)
        out.append(task)

    for task in sorted(needs):
        visit(task)
    return out
