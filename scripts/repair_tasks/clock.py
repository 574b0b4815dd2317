"""Times of day as minutes since midnight."""

DAY = 24 * 60


def parse(text):
    """Minutes of "7:05" or "23:59"."""
    hours, minutes = text.split(":")
    if not (0 <= int(hours) < 24 and 0 <= int(minutes) < 60):
        raise ValueError(f"'{text}' is no time of day")
    return int(hours) * 60 + int(minutes)


def show(minutes):
    """The text of a time, with two digits each; past midnight it begins anew."""
    minutes %= DAY
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def between(begin, end):
    """Minutes from one time to the next time that the clock shows the other one."""
    return (parse(end) - parse(begin)) % DAY
