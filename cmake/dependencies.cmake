# Libraries that come from the package index with their headers: UCX and nlohmann-json.
# A system UCX that pkg-config knows is preferred: it may have RDMA, which no wheel has.

function(python_package_dir package result)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; s = u.find_spec('${package}'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE location OUTPUT_STRIP_TRAILING_WHITESPACE)
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

add_library(tranship_ucx INTERFACE)
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  # Not in site-packages: the wheel's own .pc files name folders of the machine that built it.
  set(PKG_CONFIG_USE_CMAKE_PREFIX_PATH OFF)
  pkg_check_modules(system_ucx QUIET IMPORTED_TARGET ucx>=1.15)
endif()
if(system_ucx_FOUND)
  message(STATUS "UCX ${system_ucx_VERSION}: the system's")
  target_link_libraries(tranship_ucx INTERFACE PkgConfig::system_ucx)
else()
  python_package_dir(libucx ucx_dir)
  if(NOT ucx_dir)
    message(FATAL_ERROR "UCX was not found: pip install libucx-cu13, or install the system's UCX")
  endif()
  message(STATUS "UCX: the package index's libucx")
  target_include_directories(tranship_ucx SYSTEM INTERFACE ${ucx_dir}/include)
  target_link_directories(tranship_ucx INTERFACE ${ucx_dir}/lib)
  target_link_libraries(tranship_ucx INTERFACE ucp ucs)
  set(CMAKE_BUILD_RPATH ${ucx_dir}/lib)
endif()
