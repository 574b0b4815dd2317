# Sources of what is not installed: the projects' own archives of one version each, checked by SHA-256 where a sum is pinned.
# Those of llama.cpp, minja and Boost are not, unless -DPITH_SHA256_llama_cpp, …_minja and …_boost give them: a line says
# so, with the sum that was found.
#   pith_source(NAME OUT)   gets the archive, unpacks it into the build folder and sets OUT to the folder of its sources
# Archives are kept in PITH_ARCHIVES (.deps/sources), for all build folders. What is not there comes from PITH_MIRROR, a folder or
# the address of one (the cache variable, where it is given; else what the environment says now), or, without, from the projects.
# FETCHCONTENT_SOURCE_DIR_<NAME> names a folder of sources instead. docs/install.md tells people of all this.
include(FetchContent)

set(PITH_MIRROR "" CACHE STRING "A folder, or the address of one, that holds the source archives of what is not installed")
if(NOT PITH_ARCHIVES)
  set(PITH_ARCHIVES "${PITH_DEPS_DIR}/sources")
endif()

# pith_pin(NAME PROJECT TAG SHA256 [COMMIT]): SHA256 is that of GitHub's archive of the tag; with COMMIT TAG is one.
set(PITH_PINS "")
function(pith_pin name project tag sha256)
  string(REGEX REPLACE "^.*/" "" repository ${project})
  string(REGEX REPLACE "^v" "" version ${tag})
  set(PITH_ARCHIVE_${name} ${repository}-${version}.tar.gz PARENT_SCOPE) # as GitHub names it
  set(place refs/tags/${tag})
  if(ARGN STREQUAL "COMMIT")
    set(place ${tag})
  endif()
  set(PITH_ADDRESS_${name} https://github.com/${project}/archive/${place}.tar.gz PARENT_SCOPE)
  string(TOLOWER "${sha256}" sha256)
  set(PITH_SHA256_${name} "${sha256}" PARENT_SCOPE)
  set(PITH_PINS ${PITH_PINS} ${name} PARENT_SCOPE)
endfunction()
pith_pin(CLI11 CLIUtils/CLI11 v2.1.2 26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb)
pith_pin(nlohmann_json nlohmann/json v3.11.2 d69f9deb6a75e2580465c6c4c5111b89c4dc2fa94e3a85fcd2ffcd9a143d9273)
pith_pin(googletest google/googletest release-1.12.1 81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2)
pith_pin(highway google/highway 1.3.0 07b3c1ba2c1096878a85a31a5b9b3757427af963b1141ca904db2f9f4afe0bc2)
# No release of it has a number; this is the one that Debian has. No sum of the archive was at hand: -DPITH_SHA256_minja.
pith_pin(minja google/minja 021c2293c187 "${PITH_SHA256_minja}" COMMIT)
# Not GitHub's archive, which holds none of its libraries. As with llama.cpp's, below: -DPITH_SHA256_boost.
pith_pin(boost boostorg/boost boost-1.81.0 "${PITH_SHA256_boost}")
set(PITH_ARCHIVE_boost boost_1_81_0.tar.gz)
set(PITH_ADDRESS_boost https://archives.boost.io/release/1.81.0/source/boost_1_81_0.tar.gz)
# It brings ggml 0.27.0. No sum that could be verified was at hand: who has one passes -DPITH_SHA256_llama_cpp.
pith_pin(llama_cpp ggml-org/llama.cpp v0.7.0 "${PITH_SHA256_llama_cpp}")

# pith_archive(NAME OUT): gets the archive of NAME, unless it is there, and sets OUT to its path.
function(pith_archive name out)
  set(archive ${PITH_ARCHIVE_${name}})
  set(file "${PITH_ARCHIVES}/${archive}")
  set(from "${file}")
  if(NOT EXISTS "${file}")
    set(advice "install ${name}, or see docs/install.md for a build without a network")
    set(from ${PITH_ADDRESS_${name}})
    set(mirror "${PITH_MIRROR}")
    if(mirror STREQUAL "")
      set(mirror "$ENV{PITH_MIRROR}")
    endif()
    if(NOT mirror STREQUAL "")
      string(REGEX REPLACE "/+$" "" from "${mirror}")
      string(APPEND from "/${archive}")
    endif()
    string(RANDOM LENGTH 12 part) # a name of this process: other build folders may be fetching the same
    set(part "${file}.${part}.part")
    if(from MATCHES "^[a-z]+://")
      message(STATUS "Pith: fetching ${from}")
      file(DOWNLOAD "${from}" "${part}" TLS_VERIFY ON INACTIVITY_TIMEOUT 60 STATUS status)
      list(POP_FRONT status code)
      if(code)
        file(REMOVE "${part}")
        message(FATAL_ERROR "cannot fetch ${from}: ${status}; ${advice}")
      endif()
    else()
      cmake_path(ABSOLUTE_PATH from BASE_DIRECTORY "${CMAKE_SOURCE_DIR}")
      if(NOT EXISTS "${from}")
        message(FATAL_ERROR "PITH_MIRROR holds no '${from}'; get it from ${PITH_ADDRESS_${name}}, or ${advice}")
      endif()
      file(MAKE_DIRECTORY "${PITH_ARCHIVES}")
      file(COPY_FILE "${from}" "${part}")
    endif()
    file(RENAME "${part}" "${file}")
  endif()
  file(SHA256 "${file}" sha256)
  if("${PITH_SHA256_${name}}" STREQUAL "")
    message(STATUS "Pith: ${archive} is used unchecked: its SHA-256 is ${sha256}, and none is pinned (-DPITH_SHA256_${name}=SUM)")
  elseif(NOT sha256 STREQUAL PITH_SHA256_${name})
    file(REMOVE "${file}")
    message(FATAL_ERROR "'${from}' is not the archive that is wanted: its SHA-256 is ${sha256}, not ${PITH_SHA256_${name}}")
  endif()
  set(${out} "${file}" PARENT_SCOPE)
endfunction()

function(pith_source name out)
  string(TOUPPER ${name} upper)
  string(TOLOWER ${name} lower)
  set(from "")
  if(NOT FETCHCONTENT_SOURCE_DIR_${upper})
    pith_archive(${name} archive)
    set(from URL "${archive}")
  endif()
  # Unpacked only: whoever wants the project's own build adds the folder.
  FetchContent_Declare(${name} ${from} SOURCE_SUBDIR no-build-of-its-own)
  FetchContent_MakeAvailable(${name})
  file(GLOB licence "${${lower}_SOURCE_DIR}/LICENSE" "${${lower}_SOURCE_DIR}/LICENSE.MIT"
    "${${lower}_SOURCE_DIR}/LICENSE_1_0.txt")
  if(licence AND NOT name STREQUAL "googletest") # nothing of which is installed
    list(GET licence 0 licence)
    install(FILES "${licence}" DESTINATION ${CMAKE_INSTALL_DOCDIR}/licences RENAME ${name}.txt)
  endif()
  set(${out} "${${lower}_SOURCE_DIR}" PARENT_SCOPE)
endfunction()
