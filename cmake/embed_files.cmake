# Writes a C++ source that holds the files of a folder, so that a program has them wherever it lies:
#   cmake -DFOLDER=… -DEXTENSION=json -DHEADER=… -DTYPE=… -DFUNCTION=… -DOUT=… -P embed_files.cmake
# HEADER declares `std::span<const TYPE> FUNCTION();` of namespace pith, a TYPE being {name, text}. Files of sub-folders are there too;
# their names are paths in FOLDER without the extension, in order.
include(${CMAKE_CURRENT_LIST_DIR}/embed_bytes.cmake)
file(GLOB_RECURSE files RELATIVE ${FOLDER} ${FOLDER}/*.${EXTENSION})
list(SORT files)
set(arrays "")
set(entries "")
set(n_files 0)
foreach(path IN LISTS files)
  string(REGEX REPLACE "\\.${EXTENSION}$" "" name "${path}")
  embed_bytes(${FOLDER}/${path} bytes n)
  string(APPEND arrays "const char k_${n_files}[] = {\n${bytes}};\n\n")
  string(APPEND entries "        {\"${name}\", {k_${n_files}, ${n}}},\n")
  math(EXPR n_files "${n_files} + 1")
endforeach()
file(WRITE ${OUT} "// Made by embed_files.cmake.
#include \"${HEADER}\"

#include <array>

namespace pith {
namespace {

${arrays}}  // namespace

std::span<const ${TYPE}> ${FUNCTION}() {
    static const std::array<${TYPE}, ${n_files}> all = {{
${entries}    }};
    return all;
}

}  // namespace pith
")
