# A file's bytes as the elements of a C array, for scripts that write C++ sources (cmake -P).

# embed_bytes(FILE ELEMENTS COUNT): sets ELEMENTS to "'\x7b','\x0a',…" in lines, and COUNT to how many there are.
function(embed_bytes file elements count)
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" n)
  math(EXPR n "${n} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  set(${elements} "${bytes}" PARENT_SCOPE)
  set(${count} ${n} PARENT_SCOPE)
endfunction()
