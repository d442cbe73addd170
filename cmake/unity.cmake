# Compiles the files of a folder as one, which takes half of the time: they share their headers.

# Lets a target's files be compiled so, if TRANSHIP_UNITY is set; no name of an anonymous namespace
# may be used twice in a folder then. Files that are named after ALONE are compiled one by one.
function(tranship_unity target)
  if(NOT TRANSHIP_UNITY)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 unity "" "" ALONE)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${source}" NORMALIZE of_project)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE name)
    if(of_project AND source MATCHES "\\.cpp$" AND NOT name IN_LIST unity_ALONE)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(REPLACE "/" "_" group ${folder})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Types of one source file may hold types of its anonymous namespace; g++ takes it for a header.
  target_compile_options(
    ${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()
