# What targets are made of: flags, libraries, and which of the sources' folders each can include.
find_package(Threads REQUIRED)

add_library(pith_flags INTERFACE)
target_compile_options(pith_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(pith_flags INTERFACE -Wno-restrict) # GCC 12 warns of "a" + std::string (its bug 105651)
endif()
if(PITH_SANITIZE STREQUAL "thread")
  target_compile_options(pith_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(pith_flags INTERFACE -fsanitize=thread)
elseif(PITH_SANITIZE)
  target_compile_options(pith_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(pith_flags INTERFACE -fsanitize=address,undefined)
endif()
if(PITH_FUZZ)
  target_compile_options(pith_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# pith_built_quickly(NAME [LEVEL]): code that is read more often than it runs (tests, command line, tables). An optimiser's second half
# would double its build time; LEVEL is -O1 unless it is given.
function(pith_built_quickly name)
  set(level ${ARGN})
  if(NOT level)
    set(level -O1)
  endif()
  target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<NOT:$<CXX_COMPILER_ID:MSVC>>>:${level}>)
endfunction()

# pith_relocatable(NAME RPATH): what is installed finds its libraries from where it lies, wherever that is.
function(pith_relocatable name rpath)
  set_target_properties(${name} PROPERTIES PITH_RELOCATABLE ON BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${rpath}")
  if(NOT PITH_PRIVATE_RUNTIME)
    # ggml may lie where the system does not look, and what comes along must find what itself needs beside it.
    if(NOT PITH_LIBRARIES_BUILT)
      set_target_properties(${name} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    endif()
    if(NOT APPLE)
      target_link_options(${name} PRIVATE -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags)
    endif()
  endif()
endfunction()

# pith_include_root(NAME PUBLIC|PRIVATE FOLDER SOURCE): "FOLDER/…" in an include is a file of SOURCE, for NAME and, with PUBLIC, for
# whoever links it. The compiler sees a folder of the build tree that holds this one link: no target sees a file of src/ or lab/ that it
# neither owns nor links.
function(pith_include_root name scope folder source)
  set(root ${PROJECT_BINARY_DIR}/roots/${name})
  file(REMOVE_RECURSE ${root})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${source} ${root}/${folder} SYMBOLIC)
  target_include_directories(${name} ${scope} $<BUILD_INTERFACE:${root}>)
endfunction()

# pith_library(pith_FOLDER [IN PARENT] SOURCES …), SOURCES as for pith_sources (PithCompile.cmake), relative to the folder: the static
# library of FOLDER. It links what rooms.txt allows it to include: headers of other folders arrive in no other way, so the layering
# is a link order. IN: the folder lies in that of pith_PARENT, with whose headers its own arrive.
function(pith_library name)
  cmake_parse_arguments(ARG "" "IN" "SOURCES" ${ARGN})
  string(REGEX REPLACE "^pith_" "" folder ${name})
  add_library(${name} STATIC)
  pith_sources(${name} ${ARG_SOURCES})
  add_library(pith::${name} ALIAS ${name})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  if(ARG_IN)
    set(folder ${ARG_IN}/${folder})
  else()
    pith_include_root(${name} PUBLIC ${folder} ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  target_compile_features(${name} PUBLIC cxx_std_20)
  pith_links_of(links ${folder})
  if("json" IN_LIST links)
    list(REMOVE_ITEM links json)
    pith_reads_json(${name})
  endif()
  target_link_libraries(${name} PUBLIC ${links} Threads::Threads PRIVATE $<BUILD_INTERFACE:pith_flags>)
  if("pith::highway" IN_LIST links)
    target_compile_options(${name} PRIVATE ${PITH_HIGHWAY_OPTIONS})
  endif()
  pith_read_once(${name})
endfunction()

# pith_embeds(NAME FOLDER EXTENSION SOURCE HEADER TYPE FUNCTION): FOLDER's files become SOURCE, one of NAME's, so that a program that links
# it finds them wherever it lies. HEADER, TYPE and FUNCTION: as embed_files.cmake has them.
function(pith_embeds name folder extension source header type function)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${source})
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*.${extension})
  add_custom_command(OUTPUT ${out} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DEXTENSION=${extension} -DHEADER=${header} -DTYPE=${type} -DFUNCTION=${function}
      -DOUT=${out} -P ${script}
    DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed_bytes.cmake ${script} ${files})
  target_sources(${name} PRIVATE ${out})
endfunction()

# JSON is read and written inside only: headers, and nothing of them is exported.
function(pith_reads_json name)
  target_include_directories(${name} SYSTEM PRIVATE
    $<BUILD_INTERFACE:$<TARGET_PROPERTY:nlohmann_json::nlohmann_json,INTERFACE_INCLUDE_DIRECTORIES>>)
endfunction()

# GCC 12's bug (see pith_flags) comes under two more names where much text is put together and little is compiled with it. Not for
# everybody: elsewhere these warnings are worth having.
function(pith_puts_text_together name)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${name} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endfunction()
