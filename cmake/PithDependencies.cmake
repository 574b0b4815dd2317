# Finds ggml and libllama: first what scripts/setup unpacked into PITH_DEPS_DIR, then installed packages, then source.
# Used by the build and, installed beside pithConfig.cmake, by whoever calls find_package(pith).
# Defines pith::ggml and pith::llama, and
#   PITH_GGML_BACKEND_DIR   the folder of ggml's back ends; empty where the library finds them itself
#   PITH_PRIVATE_RUNTIME    whether programs start through the loader that came with the unpacked packages
# All are imported targets, so that nothing of this machine's paths is exported.
set(PITH_LLAMA_TAG v0.7.0) # the source that is built where nothing is installed; it brings ggml 0.27.0

set(PITH_GGML_BACKEND_DIR "")
set(PITH_PRIVATE_RUNTIME OFF)
set(_found_ggml "")
set(_found_libllama "")
add_library(pith::ggml INTERFACE IMPORTED)
add_library(pith::llama INTERFACE IMPORTED)

set(_root "${PITH_DEPS_DIR}/forky")
file(GLOB _loader "${_root}/usr/lib/*-linux-gnu/ld-linux-*.so.*")
if(_loader AND EXISTS "${_root}/usr/include/llama.h")
  set(PITH_PRIVATE_RUNTIME ON)
  cmake_path(GET _loader PARENT_PATH _lib)
  file(GLOB PITH_GGML_BACKEND_DIR "${_lib}/ggml/backends*")
  # The packages want a newer C library than the system's: programs start through the loader that came with them.
  add_library(pith::private_runtime INTERFACE IMPORTED)
  target_include_directories(pith::private_runtime INTERFACE "${_root}/usr/include")
  # --no-as-needed as an option, which comes before all libraries: CMake would move it behind some.
  target_link_options(pith::private_runtime INTERFACE -L${_lib} -Wl,--no-as-needed -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags
                      -Wl,-rpath,${_lib} -Wl,--dynamic-linker=${_loader})
  # The explicit libm: else the system's older one is found first.
  target_link_libraries(pith::ggml INTERFACE pith::private_runtime -lggml -lggml-base -lm)
  target_link_libraries(pith::llama INTERFACE pith::private_runtime -lllama pith::ggml)
  foreach(_name IN ITEMS ggml llama)
    file(STRINGS "${_lib}/pkgconfig/${_name}.pc" _version REGEX "^Version:")
    string(REGEX REPLACE "^Version: *" "" _version "${_version}")
    set(_found_${_name} "${_version}")
  endforeach()
  set(_found_libllama "${_found_llama}")
else()
  find_package(ggml CONFIG QUIET)
  find_package(llama CONFIG QUIET)
  if(ggml_FOUND AND llama_FOUND)
    set(_found_ggml "${ggml_VERSION}")
    set(_found_libllama "${llama_VERSION}")
    target_link_libraries(pith::ggml INTERFACE ggml::ggml)
    target_link_libraries(pith::llama INTERFACE llama pith::ggml)
  elseif(PITH_INSTALLED)
    set(PITH_DEPENDENCIES_ERROR "ggml and libllama were not found: install them, or set PITH_DEPS_DIR to a .deps folder of scripts/setup")
  else()
    message(STATUS "ggml and libllama were not found: building llama.cpp ${PITH_LLAMA_TAG} from source")
    include(FetchContent)
    foreach(_part IN ITEMS TESTS EXAMPLES TOOLS SERVER COMMON)
      set(LLAMA_BUILD_${_part} OFF CACHE BOOL "" FORCE)
    endforeach()
    set(LLAMA_CURL OFF CACHE BOOL "" FORCE)
    set(BUILD_SHARED_LIBS ON CACHE BOOL "" FORCE)
    FetchContent_Declare(llama_cpp GIT_REPOSITORY https://github.com/ggml-org/llama.cpp.git GIT_TAG ${PITH_LLAMA_TAG}
                         GIT_SHALLOW TRUE)
    FetchContent_MakeAvailable(llama_cpp)
    target_link_libraries(pith::ggml INTERFACE ggml)
    target_link_libraries(pith::llama INTERFACE llama pith::ggml)
  endif()
endif()

if(NOT PITH_INSTALLED)
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/tested_versions.txt" _lines REGEX "^[a-z]")
  foreach(_line IN LISTS _lines)
    string(REPLACE " " ";" _line "${_line}")
    list(GET _line 0 _name)
    list(GET _line 1 _tested)
    if(_found_${_name} AND NOT _found_${_name} VERSION_EQUAL _tested)
      message(STATUS "${_name} ${_found_${_name}} found; Pith was tested with ${_tested}")
    endif()
  endforeach()
endif()
