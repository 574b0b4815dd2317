# Source archives without a network: taken from a mirror, kept, checked, refused (cmake/PithSources.cmake). Run by ctest.
set(sources "${SOURCE_DIR}/cmake/PithSources.cmake")
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/mirror/thing-1.0/include ${WORK_DIR}/project ${WORK_DIR}/none)
file(WRITE ${WORK_DIR}/mirror/thing-1.0/include/thing.h "// a thing\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E tar czf thing-1.0.tar.gz thing-1.0 WORKING_DIRECTORY ${WORK_DIR}/mirror COMMAND_ERROR_IS_FATAL ANY)
file(SHA256 ${WORK_DIR}/mirror/thing-1.0.tar.gz sum)
string(REPEAT 0 64 wrong_sum)
file(WRITE ${WORK_DIR}/project/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
set(CMAKE_INSTALL_DOCDIR doc)
include(${sources})
pith_pin(thing example/thing v1.0 \"\${SUM}\")
pith_source(thing folder)
if(NOT EXISTS \${folder}/include/thing.h)
  message(FATAL_ERROR \"no thing.h in \${folder}\")
endif()")

set(runs 0)
set(environment --unset=PITH_MIRROR)
# cmake_says(OK|PATTERN ARGUMENT…): CMake with these arguments works, or fails and says PATTERN. Sets output to all it said.
function(cmake_says wanted)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env ${environment} ${CMAKE_COMMAND} ${ARGN}
                  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}") # as it was before CMake broke its lines
  if(wanted STREQUAL "OK" AND NOT result EQUAL 0)
    message(FATAL_ERROR "${environment}, ${ARGN}: failed:\n${output}")
  elseif(NOT wanted STREQUAL "OK" AND (result EQUAL 0 OR NOT output MATCHES "${wanted}"))
    message(FATAL_ERROR "${environment}, ${ARGN}: no '${wanted}' in:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()
# configure_in(BUILD ARCHIVES OK|PATTERN [-D…]): a project that wants the archive. configure(…): in a new build folder.
function(configure_in build archives wanted)
  cmake_says("${wanted}" -S ${WORK_DIR}/project -B ${WORK_DIR}/${build} -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
             -DPITH_ARCHIVES=${WORK_DIR}/${archives} ${ARGN})
  set(output "${output}" PARENT_SCOPE)
endfunction()
macro(configure)
  math(EXPR runs "${runs} + 1")
  configure_in(build-${runs} ${ARGV})
endmacro()

configure(kept OK -DSUM=${sum} -DPITH_MIRROR=${WORK_DIR}/mirror)
configure(kept OK -DSUM=${sum} -DPITH_MIRROR=${WORK_DIR}/none) # wanted no more
configure(from_address OK -DSUM=${sum} -DPITH_MIRROR=file://${WORK_DIR}/mirror/)
string(FIND "${output}" "unchecked" unchecked)
if(NOT unchecked EQUAL -1)
  message(FATAL_ERROR "a checked archive is called unchecked:\n${output}")
endif()
configure(unpinned OK -DSUM= -DPITH_MIRROR=${WORK_DIR}/mirror)
string(FIND "${output}" "thing-1.0.tar.gz is used unchecked: its SHA-256 is ${sum}" unchecked)
if(unchecked EQUAL -1)
  message(FATAL_ERROR "not a word of an unchecked archive:\n${output}")
endif()
configure(empty "holds no '.*/none/thing-1.0.tar.gz'; get it from https://github.com/example/thing/archive/refs/tags/v1.0.tar.gz"
          -DSUM=${sum} -DPITH_MIRROR=${WORK_DIR}/none)
configure(empty "cannot fetch file://.*/none/thing-1.0.tar.gz: .*install thing" -DSUM=${sum} -DPITH_MIRROR=file://${WORK_DIR}/none)
configure(refused "is not the archive that is wanted: its SHA-256 is ${sum}, not ${wrong_sum}"
          -DSUM=${wrong_sum} -DPITH_MIRROR=${WORK_DIR}/mirror)
file(GLOB left ${WORK_DIR}/refused/* ${WORK_DIR}/empty/*)
if(left)
  message(FATAL_ERROR "a refused archive was kept: ${left}")
endif()

# One build folder: the environment's mirror is the one of this run, and -D wins.
set(environment PITH_MIRROR=${WORK_DIR}/mirror)
configure_in(build-env env-1 OK -DSUM=${sum})
set(environment PITH_MIRROR=${WORK_DIR}/none)
configure_in(build-env env-2 "holds no '.*/none/thing-1.0.tar.gz'" -DSUM=${sum})
configure_in(build-env env-2 OK -DSUM=${sum} -DPITH_MIRROR=${WORK_DIR}/mirror)

# cmake/fetch_sources.cmake: options before it, and the environment's mirror.
set(fetch -P ${SOURCE_DIR}/cmake/fetch_sources.cmake)
cmake_says("holds no '.*/none/CLI11-2.1.2.tar.gz'" -DPITH_SHA256_llama_cpp=${sum} ${fetch} ${WORK_DIR}/fetched)
cmake_says("say where to" ${fetch})
cmake_says("say where to" ${fetch} ${WORK_DIR}/fetched -DPITH_SHA256_llama_cpp=${sum})
file(GLOB parts ${WORK_DIR}/*/*.part)
if(parts)
  message(FATAL_ERROR "left behind: ${parts}")
endif()
