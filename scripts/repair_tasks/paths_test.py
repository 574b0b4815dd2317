from paths import extension, is_inside, normalise

assert normalise("/a/./b/../c//d") == "/a/c/d"
assert normalise("/../x") == "/x"
assert extension("/home/.bashrc") == "", "a name that begins with its only dot has no extension"
assert is_inside("/data/x", "/data") and not is_inside("/database", "/data")
