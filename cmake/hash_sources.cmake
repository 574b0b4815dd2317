# One hash of the sources that answers of `pith eval` hang on: a run that was begun by another build is not gone on with.
#   cmake -DROOT=… -DLIST=FILE -DOUT=FILE.cpp -P hash_sources.cmake     LIST: their paths below ROOT, a line each
file(STRINGS ${LIST} files)
set(all "")
foreach(file IN LISTS files)
  file(SHA256 ${ROOT}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "#include \"app/eval/source_hash.h\"\n\nconst char * const pith::app::kSourceHash = \"${hash}\";\n")
