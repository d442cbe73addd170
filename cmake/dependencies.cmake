# Libraries that come from the package index with their headers: nlohmann-json, and for the tests
# UCX, which the library itself loads while it runs.

function(python_package_dir package result)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; s = u.find_spec('${package}'); print(s.submodule_search_locations[0] if s else '')"
    ERROR_QUIET OUTPUT_VARIABLE location OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${result} "${location}" PARENT_SCOPE)
endfunction()

add_library(tranship_json INTERFACE)
find_package(nlohmann_json QUIET)
if(nlohmann_json_FOUND)
  target_link_libraries(tranship_json INTERFACE nlohmann_json::nlohmann_json)
else()
  python_package_dir(nlohmann_json json_dir)
  if(NOT json_dir)
    message(FATAL_ERROR "nlohmann-json was not found: pip install nlohmann-json")
  endif()
  target_include_directories(tranship_json SYSTEM INTERFACE ${json_dir}/include)
endif()

# The tests use the wheel's libucp and hold our declarations against its headers. Empty: they look
# for the system's library, or are skipped.
python_package_dir(libucx tranship_ucx_dir)
set(tranship_test_ucx "")
if(tranship_ucx_dir AND EXISTS ${tranship_ucx_dir}/lib/libucp.so.0)
  set(tranship_test_ucx ${tranship_ucx_dir}/lib/libucp.so.0)
endif()
