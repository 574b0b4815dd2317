# `cmake --install`: headers, static libraries, the program, the built-in model, manual pages, completions, and what
# find_package(pith) needs. The tree may be moved, and wants neither this folder nor the build's:
#   bin/pith, bin/pith-lab   the programs; where they need a newer C library than the system's, the launchers of those in lib/pith
#   lib/pith/         there: the programs, the libraries that they want, and in runtime/ the C and C++ libraries with their loader
#   share/pith/models the built-in models, their head importances, the first one's gates, and the recipes
include(CMakePackageConfigHelpers)

# pith::pith is what a program links: the engine and the text side.
add_library(pith_public INTERFACE)
add_library(pith::pith ALIAS pith_public)
set_target_properties(pith_public PROPERTIES EXPORT_NAME pith)
target_link_libraries(pith_public INTERFACE pith_engine pith_text)

# All that is installed, where `scripts/build pith` (scripts/demo) has built a part of it: the rest is built now.
set(_programs pith_installed pith-lab_installed)
if(PITH_PRIVATE_RUNTIME)
  list(APPEND _programs pith_launcher pith-lab_launcher)
endif()
set(_libraries pith_core pith_policy pith_file pith_device pith_matmul pith_model pith_gate pith_cache pith_plan pith_attention pith_evidence
               pith_engine pith_text)
add_custom_target(pith_to_install)
add_dependencies(pith_to_install pith pith-lab ${_programs} pith_c_installed ${_libraries})
list(JOIN _programs ">\" \"$<TARGET_FILE:" _files)
install(CODE "
  foreach(_file IN ITEMS \"$<TARGET_FILE:pith>\" \"$<TARGET_FILE:pith-lab>\" \"$<TARGET_FILE:${_files}>\" \"$<TARGET_FILE:pith_c_installed>\" \"$<TARGET_FILE:pith_text>\")
    if(NOT EXISTS \"\${_file}\")
      message(STATUS \"Building what is missing\")
      cmake_host_system_information(RESULT _cores QUERY NUMBER_OF_LOGICAL_CORES)
      execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\" --target pith_to_install --parallel \${_cores} RESULT_VARIABLE _result)
      if(NOT _result EQUAL 0)
        message(FATAL_ERROR \"the build of what is installed failed\")
      endif()
      break()
    endif()
  endforeach()")

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pith)
set(_library_dir ${CMAKE_INSTALL_LIBDIR}/pith)
install(TARGETS ${_libraries} pith_public EXPORT pithTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pith_c_installed EXPORT pithTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES python/pith.py DESTINATION ${CMAKE_INSTALL_DATADIR}/pith/python)
install(DIRECTORY include/pith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/pith/models FILES_MATCHING PATTERN "*.gguf" PATTERN "*.json"
        PATTERN heads EXCLUDE) # of other models: part of the library
install(DIRECTORY examples/sample DESTINATION ${CMAKE_INSTALL_DATADIR}/pith)
install(FILES LICENSE README.md CHANGELOG.md docs/install.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Scripts of the install step see these.
install(CODE "
  set(PITH_PROGRAM \"$<TARGET_FILE:pith>\")
  set(PITH_MAN_DIR \"${CMAKE_INSTALL_MANDIR}/man1\")
  set(PITH_DATA_DIR \"${CMAKE_INSTALL_DATADIR}\")
  set(PITH_DOC_DIR \"${CMAKE_INSTALL_DOCDIR}\")
  set(PITH_PACKAGE_DIR \"${_package_dir}\")
  set(PITH_LIBRARY_DIR \"${_library_dir}\")
  set(PITH_WORK_DIR \"${PROJECT_BINARY_DIR}/installed\")
  set(PITH_SOURCES \"${PROJECT_SOURCE_DIR}\")
  set(PITH_DEPS_DIR \"${PITH_DEPS_DIR}\")
  set(PITH_LOADER \"${PITH_PRIVATE_LOADER}\")
  set(PITH_BACKENDS \"${PITH_GGML_BACKENDS}\")
  set(PITH_OBJDUMP \"${CMAKE_OBJDUMP}\")")
install(SCRIPT cmake/install_manuals.cmake)
if(PITH_PRIVATE_RUNTIME)
  install(TARGETS pith_launcher pith-lab_launcher RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS pith_installed pith-lab_installed RUNTIME DESTINATION ${_library_dir})
  install(SCRIPT cmake/install_libraries.cmake)
else()
  install(TARGETS pith_installed pith-lab_installed RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # ggml is the system's; what scripts/setup unpacked beside it comes along.
  file(GLOB _unpacked ${PITH_DEPS_DIR}/system/usr/lib/*-linux-gnu/lib*.so.*)
  list(FILTER _unpacked INCLUDE REGEX "/lib(absl|sentencepiece|protobuf|edit|bsd|md|tinfo)[^/]*$")
  install(FILES ${_unpacked} DESTINATION ${_library_dir})
endif()

install(EXPORT pithTargets NAMESPACE pith:: DESTINATION ${_package_dir})
configure_package_config_file(cmake/pithConfig.cmake.in ${PROJECT_BINARY_DIR}/pithConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pithConfig.cmake ${PROJECT_BINARY_DIR}/pithConfigVersion.cmake cmake/PithDependencies.cmake
        DESTINATION ${_package_dir})

set(PITH_LOADER_FILE "")
set(PITH_PC_OPTIONS "")
if(PITH_PRIVATE_RUNTIME)
  cmake_path(GET PITH_PRIVATE_LOADER FILENAME PITH_LOADER_FILE)
  set(PITH_PC_OPTIONS "-Wl,--allow-shlib-undefined -Wl,--disable-new-dtags") # the run path is the libraries', too
endif()
string(REGEX REPLACE "[^/]+" ".." PITH_PREFIX_FROM_PC ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_file(cmake/pith.pc.in ${PROJECT_BINARY_DIR}/pith.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
