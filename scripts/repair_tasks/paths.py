"""Paths with slashes, as text."""


def normalise(path):
    """The same path without ".", ".." and doubled slashes; ".." at the root stays at the root."""
    out = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if out:
                out.pop()
        else:
            out.append(part)
    return "/" + "/".join(out)


def extension(path):
    """What stands behind the last dot of the file's name; a name that begins with its only dot has none."""
    name = path.rsplit("/", 1)[-1]
    at = name.rfind(".")
    return name[at + 1:] if at > 0 else ""


def is_inside(path, folder):
    """Whether a path lies in a folder, or is the folder."""
    path, folder = normalise(path), normalise(folder)
    return path == folder or path.startswith(folder.rstrip("/") + "/")
