# Writes a C++ source that holds the head importances that come with Pith.   cmake -DFOLDER=… -DOUT=… -P embed_heads.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/embed_bytes.cmake)
file(GLOB files ${FOLDER}/*.json)
list(SORT files)
set(arrays "")
set(entries "")
set(n_files 0)
foreach(path IN LISTS files)
  get_filename_component(name ${path} NAME)
  string(REGEX REPLACE "\\.json$" "" name "${name}")
  embed_bytes(${path} bytes n)
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
