# Which ggml is taken (cmake/PithGgml.cmake): where a back end is asked for, or PITH_GGML says so, not the one that is there. Run by
# ctest.
file(REMOVE_RECURSE ${WORK_DIR})
file(WRITE ${WORK_DIR}/project/CMakeLists.txt "
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
include(${SOURCE_DIR}/cmake/PithGgml.cmake)
set(GGML_VULKAN ON) # of a package that was found: nobody asks for it
pith_choose_ggml(choice)
message(STATUS \"choice: \${choice}.\")")

# chooses(PATTERN [-D…]): all that CMake says in one build folder, in which the options before are remembered.
function(chooses pattern)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR}/project -B ${WORK_DIR}/build -G ${GENERATOR} -DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM} ${ARGN}
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(NOT output MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN}: no '${pattern}' in:\n${output}")
  endif()
endfunction()
chooses("choice: auto\\.")
chooses("source, since GGML_CUDA, GGML_RPC is asked for.*choice: source\\." -DGGML_CUDA=ON -DGGML_RPC=1)
chooses("choice: source\\.") # remembered
chooses("GGML_CUDA, GGML_RPC is asked for and not read, since PITH_GGML is 'installed'.*choice: installed\\." -DPITH_GGML=installed)
chooses("choice: unpacked\\." -DPITH_GGML=unpacked -DGGML_CUDA=OFF -DGGML_RPC=OFF)
chooses("since PITH_GGML is 'source'.*choice: source\\." -DPITH_GGML=source)
chooses("PITH_GGML is 'sources': give auto, unpacked, installed or source" -DPITH_GGML=sources)
