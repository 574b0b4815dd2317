# Writes a C++ source that holds the head importances that come with Pith.   cmake -DFOLDER=… -DOUT=… -P embed_heads.cmake
file(GLOB files ${FOLDER}/*.json)
list(SORT files)
set(arrays "")
set(entries "")
set(n_files 0)
foreach(path IN LISTS files)
  get_filename_component(name ${path} NAME)
  string(REGEX REPLACE "\\.json$" "" name "${name}")
  file(READ ${path} bytes HEX)
  string(LENGTH "${bytes}" n)
  math(EXPR n "${n} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND arrays "const char k_${n_files}[] = {\n${bytes}};\n\n")
  string(APPEND entries "        {\"${name}\", {k_${n_files}, ${n}}},\n")
  math(EXPR n_files "${n_files} + 1")
endforeach()
file(WRITE ${OUT} "// Made by embed_heads.cmake out of models/heads.
#include \"model/shipped_heads.h\"

#include <array>

namespace pith {
namespace {

${arrays}}  // namespace

std::span<const ShippedHeads> all_shipped_heads() {
    static const std::array<ShippedHeads, ${n_files}> all = {{
${entries}    }};
    return all;
}

}  // namespace pith
")
