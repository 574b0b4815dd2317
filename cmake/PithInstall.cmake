# `cmake --install`: headers, static libraries, the program, the reference model, and what find_package(pith) needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# pith::pith is what a program links: the engine and the text side.
add_library(pith_public INTERFACE)
add_library(pith::pith ALIAS pith_public)
set_target_properties(pith_public PROPERTIES EXPORT_NAME pith)
target_link_libraries(pith_public INTERFACE pith_engine pith_text)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pith)
install(TARGETS pith_core pith_model pith_gate pith_cache pith_engine pith_text pith_public EXPORT pithTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS pith_c EXPORT pithTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES python/pith.py DESTINATION ${CMAKE_INSTALL_DATADIR}/pith/python)
install(TARGETS pith RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/pith DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(EXISTS ${PROJECT_SOURCE_DIR}/models)
  install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/pith/models FILES_MATCHING PATTERN "*.gguf" PATTERN "*.heads.json")
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT pithTargets NAMESPACE pith:: DESTINATION ${_package_dir})
configure_package_config_file(cmake/pithConfig.cmake.in ${PROJECT_BINARY_DIR}/pithConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/pithConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/pithConfig.cmake ${PROJECT_BINARY_DIR}/pithConfigVersion.cmake cmake/PithDependencies.cmake
        DESTINATION ${_package_dir})
