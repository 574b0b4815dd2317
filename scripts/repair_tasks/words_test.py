from words import frequencies, most_frequent, words

assert words("It's late, it's LATE") == ["it's", "late", "it's", "late"]
assert frequencies("a b a") == {"a": 2, "b": 1}
assert most_frequent("c b b a a a", 2) == ["a", "b"], "the most frequent word comes first"
