from order import order

assert order({"roof": ["walls"], "walls": ["floor"]}) == ["floor", "walls", "roof"], "a task comes behind what it needs"
try:
    order({"a": ["b"], "b": ["a"]})
    assert False, "a circle must be refused"
except ValueError:
    pass
