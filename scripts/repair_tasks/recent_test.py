from recent import Recent

store = Recent(2)
store.put("a", 1)
store.put("b", 2)
assert store.get("a") == 1
store.put("c", 3)
assert store.get("b") is None, "b was used longest ago, so it must be gone"
assert store.get("a") == 1
assert len(store) == 2
