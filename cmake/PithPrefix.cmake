# Adds what scripts/setup unpacked of the system's own suite (CLI11, nlohmann-json, GoogleTest, SentencePiece …) to the search
# paths. ggml is not among it: see PithDependencies.cmake.
set(PITH_DEPS_DIR "${CMAKE_CURRENT_SOURCE_DIR}/.deps" CACHE PATH "Where scripts/setup unpacked libraries")
set(_system "${PITH_DEPS_DIR}/system/usr")
if(EXISTS "${_system}")
  list(PREPEND CMAKE_PREFIX_PATH "${_system}")
  if(EXISTS "${_system}/include")
    include_directories(SYSTEM "${_system}/include")
  endif()
endif()
# What only the tests want, fetched on its own: no flag of what was compiled without it may change.
if(EXISTS "${PITH_DEPS_DIR}/tests/usr")
  list(PREPEND CMAKE_PREFIX_PATH "${PITH_DEPS_DIR}/tests/usr")
endif()
