# Fetches every source archive that a build where nothing is installed wants, for a machine without a network:
#   cmake [-D…] -P cmake/fetch_sources.cmake FOLDER      and, there, PITH_MIRROR=FOLDER scripts/build
# -DPITH_SHA256_llama_cpp=SUM has that archive checked, too. PITH_MIRROR (-D, or the environment's) is fetched from, where it is given.
cmake_minimum_required(VERSION 3.25)
math(EXPR _last "${CMAKE_ARGC} - 1")
math(EXPR _before "${CMAKE_ARGC} - 3")
if(NOT "${CMAKE_ARGV${_before}}" STREQUAL "-P")
  message(FATAL_ERROR "say where to: cmake [-D…] -P cmake/fetch_sources.cmake FOLDER")
endif()
set(PITH_ARCHIVES "${CMAKE_ARGV${_last}}")
cmake_path(ABSOLUTE_PATH PITH_ARCHIVES BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
include("${CMAKE_CURRENT_LIST_DIR}/PithSources.cmake")
foreach(_name IN LISTS PITH_PINS)
  pith_archive(${_name} _archive)
endforeach()
