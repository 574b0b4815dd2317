# Writes OUT, ctest's list of PROGRAM's tests: as gtest_discover_tests() does, an entry each, but of a suite with more than MOST
# tests so many to an entry, since a process of its own, with ggml and a model in it, takes longer than most of them.
# cmake -DPROGRAM=… -DLABEL=… -DMOST=… -DOUT=… -P list_shards.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY TIMEOUT 60)
string(REGEX REPLACE "[[;]|]" "" listed "${listed}") # what would mean something in a list: in values of parameters only
string(REPLACE "\n" ";" listed "${listed}")

set(entries "")
# An entry of one test, or of a part of a suite, as gtest deals out its tests.
function(add_entry name filter n_parts part)
  string(APPEND entries "add_test([=[${name}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${filter}]=])\n"
         "set_tests_properties([=[${name}]=] PROPERTIES LABELS ${LABEL}")
  if(n_parts GREATER 1)
    string(APPEND entries " TIMEOUT 1200 ENVIRONMENT \"GTEST_TOTAL_SHARDS=${n_parts};GTEST_SHARD_INDEX=${part}\"")
  else()
    string(APPEND entries " TIMEOUT 300 SKIP_REGULAR_EXPRESSION \"[[]  SKIPPED []]\"")
  endif()
  set(entries "${entries})\n" PARENT_SCOPE)
endfunction()

macro(end_suite)
  list(LENGTH tests n)
  if(n GREATER MOST)
    math(EXPR parts "(${n} + ${MOST} - 1) / ${MOST}")
    foreach(part RANGE 1 ${parts})
      math(EXPR index "${part} - 1")
      add_entry("${suite} ${part} of ${parts}" "${suite}.*" ${parts} ${index})
    endforeach()
  else()
    foreach(test IN LISTS tests)
      add_entry("${suite}.${test}" "${suite}.${test}" 1 0)
    endforeach()
  endif()
  set(tests "")
endmacro()

set(suite "")
set(tests "")
foreach(line IN LISTS listed)
  if(line MATCHES "^  ([^ ]+)")
    list(APPEND tests "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^([^ ]+)[.]( |$)")
    end_suite()
    set(suite "${CMAKE_MATCH_1}")
  endif()
endforeach()
end_suite()
file(WRITE ${OUT} "${entries}")
