# How sources become objects: which compile together (PITH_UNITY), what is read once for all, and ccache.

# pith_sources(TARGET FILE… [TOGETHER FILE…]… [ALONE FILE…]): adds sources. With PITH_UNITY the files behind a TOGETHER are one
# compilation, so that the templates they share (the command line's, JSON's) are read and made once. Alone stay: files compiled
# for several instruction sets, so that nothing of a neighbour's is inlined there and rounds otherwise; files of which many
# have the same names for their own (each scorer's kOptions); files with flags of their own.
function(pith_sources name)
  set(group "")
  set(n 0)
  foreach(file IN LISTS ARGN)
    if(file STREQUAL "TOGETHER")
      math(EXPR n "${n} + 1")
      set(group ${name}_${n})
    elseif(file STREQUAL "ALONE")
      set(group "")
    else()
      cmake_path(ABSOLUTE_PATH file NORMALIZE)
      target_sources(${name} PRIVATE ${file})
      if(PITH_UNITY AND group)
        set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${group})
      endif()
    endif()
  endforeach()
  if(PITH_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  endif()
endfunction()

# pith_other_sources(TARGET FOLDER…): adds every .cpp of the folders that the target has not got yet, each compiled alone: what is
# new there needs no line in a list.
function(pith_other_sources name)
  get_target_property(known ${name} SOURCES)
  foreach(folder IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH folder NORMALIZE)
    file(GLOB found CONFIGURE_DEPENDS ${folder}/*.cpp)
    list(REMOVE_ITEM found ${known})
    target_sources(${name} PRIVATE ${found})
  endforeach()
endfunction()

# pith_read_once(LIBRARY): what nearly every file of the libraries includes, read once. Every file includes what it needs
# nonetheless: the build without PITH_UNITY and clang-tidy read each by itself.
function(pith_read_once name)
  if(NOT PITH_UNITY)
    return()
  endif()
  if(name STREQUAL "pith_core") # the first; its flags are the others'
    target_precompile_headers(${name} PRIVATE <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <map> <memory>
                              <numeric> <optional> <set> <span> <string> <string_view> <utility> <vector>)
  else()
    target_precompile_headers(${name} REUSE_FROM pith_core)
  endif()
endfunction()

# ccache, where it is. Precompiled headers want two of its checks off and a flag on (its manual, "Precompiled headers").
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(PITH_CCACHE ccache)
  if(PITH_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${PITH_CCACHE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-fpch-preprocess)
    elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
      add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
endif()
