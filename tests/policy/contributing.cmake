# contributing_test: the example of CONTRIBUTING.md ("Adding a policy"), done as the page tells its reader. The page's two code blocks
# are written into files of the build folder, and its line into a copy of scorers.def. What comes of it is compiled with the
# library's other parts, and judged by the tests that judge those.
set(_copy ${CMAKE_CURRENT_BINARY_DIR}/contributing)
set(_list ${PROJECT_SOURCE_DIR}/src/policy/score/scorers.def)
file(READ ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md _page)
file(READ ${_list} _scorers)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md ${_list})

# page_part(BEGIN END VARIABLE): what the page has between the two.
function(page_part begin end variable)
  string(FIND "${_page}" "${begin}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "CONTRIBUTING.md has no '${begin}': tests/policy/contributing.cmake looks for it")
  endif()
  string(LENGTH "${begin}" length)
  math(EXPR at "${at} + ${length}")
  string(SUBSTRING "${_page}" ${at} -1 rest)
  string(FIND "${rest}" "${end}" at)
  string(SUBSTRING "${rest}" 0 ${at} part)
  set(${variable} "${part}" PARENT_SCOPE)
endfunction()

# put(FILE TEXT): a file of the copy; untouched where it says that already, so that nothing is compiled again.
function(put file text)
  file(WRITE ${_copy}/text "${text}")
  configure_file(${_copy}/text ${_copy}/${file} COPYONLY)
endfunction()

page_part("```cpp\n// vatp.cpp" "```" _source)
page_part("```cpp\n// vatp_test.cpp" "```" _test)
page_part("`PITH_SCORER(" ")`" _name)
put(vatp.cpp "// vatp.cpp${_source}")
put(vatp_test.cpp "// vatp_test.cpp${_test}")
put(include/policy/score/scorers.def "${_scorers}PITH_SCORER(${_name})\n")

# The new scorer is tried with every other part: formulas that stand in a part's own test belong to it, too.
set(_formulas "")
file(GLOB _part_tests CONFIGURE_DEPENDS allocate/*_test.cpp refine/*_test.cpp select/*_test.cpp)
foreach(_part_test IN LISTS _part_tests)
  file(STRINGS ${_part_test} _known REGEX "^const Known<")
  if(_known)
    list(APPEND _formulas ${_part_test})
  endif()
endforeach()

# Who really adds it, as a trial, has it among the library's own.
if(NOT _scorers MATCHES "PITH_SCORER\\(${_name}\\)")
  add_executable(contributing_test ${_copy}/vatp.cpp ${_copy}/vatp_test.cpp contributing_test.cpp ${_formulas}
                                   ${PROJECT_SOURCE_DIR}/src/policy/registry.cpp)
  target_include_directories(contributing_test BEFORE PRIVATE ${_copy}/include)
  target_link_libraries(contributing_test PRIVATE pith_policy_matrix)
  pith_test_sources(contributing_test)
  gtest_discover_tests(contributing_test TEST_PREFIX Contributing. TEST_FILTER "Vatp*:*/vatp*" DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS unit TIMEOUT 300)
endif()

# And the architecture that the page shows is the file that it names.
page_part("```cpp\n// smollm3.cpp" "```" _architecture)
put(smollm3.cpp "// smollm3.cpp${_architecture}")
add_test(NAME Contributing.TheArchitectureOnThePageIsTheFileItNames
         COMMAND ${CMAKE_COMMAND} -E compare_files ${_copy}/smollm3.cpp ${PROJECT_SOURCE_DIR}/src/model/arch/smollm3.cpp)
set_tests_properties(Contributing.TheArchitectureOnThePageIsTheFileItNames PROPERTIES LABELS unit)
