# Fetches every source archive that a build where nothing is installed wants, for a machine without a network:
#   cmake -P cmake/fetch_sources.cmake FOLDER      and, there, PITH_MIRROR=FOLDER scripts/build
cmake_minimum_required(VERSION 3.25)
if(NOT CMAKE_ARGC EQUAL 4)
  message(FATAL_ERROR "say where to: cmake -P cmake/fetch_sources.cmake FOLDER")
endif()
set(PITH_ARCHIVES "${CMAKE_ARGV3}")
cmake_path(ABSOLUTE_PATH PITH_ARCHIVES BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
include("${CMAKE_CURRENT_LIST_DIR}/PithSources.cmake")
foreach(_name IN LISTS PITH_PINS)
  pith_archive(${_name} _archive)
endforeach()
