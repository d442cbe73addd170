# The CUDA compiler, if there is one: a toolkit's nvcc, or the package index's wheels.
# Sets tranship_cuda_usable. Kernels are built ahead of time and the runtime is linked statically, so
# that one build loads on machines with and without a GPU.

# Kernels take minutes to compile, so that AUTO leaves them out where no driver is installed; a build
# for other machines, such as a wheel or one on a login node, sets ON.
set(TRANSHIP_CUDA AUTO CACHE STRING
    "Build for NVIDIA GPUs: AUTO (where a driver is installed, and nvcc is found), ON or OFF")
set_property(CACHE TRANSHIP_CUDA PROPERTY STRINGS AUTO ON OFF)
# Machine code for each generation in use; PTX of the oldest and the newest for all the others.
set(TRANSHIP_CUDA_ARCHITECTURES "80;90-real;100-real;120" CACHE STRING
    "GPU architectures, in CMake's CUDA_ARCHITECTURES form")

# Why `nvcc` cannot be used, or an empty string.
function(try_cuda_compiler nvcc result)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/cuda-trial)
  file(WRITE ${folder}/trial.cu
       "#include <vector>\n__global__ void k(int* p) { *p = 1; }\nint main() { k<<<1, 1>>>(nullptr); }\n")
  execute_process(
    COMMAND ${nvcc} -std=c++20 -ccbin ${CMAKE_CXX_COMPILER} -c trial.cu -o trial.o
    WORKING_DIRECTORY ${folder} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(code EQUAL 0)
    set(${result} "" PARENT_SCOPE)
  else()
    string(STRIP "${text}" text)
    set(${result} "${nvcc} cannot compile with ${CMAKE_CXX_COMPILER}: ${text}" PARENT_SCOPE)
  endif()
endfunction()

set(tranship_cuda_usable FALSE)
set(cuda_lacks "")
if(NOT TRANSHIP_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TRANSHIP_CUDA is ${TRANSHIP_CUDA}: set it to AUTO, ON or OFF")
elseif(TRANSHIP_CUDA STREQUAL OFF)
  set(cuda_lacks "TRANSHIP_CUDA is OFF")
elseif(TRANSHIP_CUDA STREQUAL AUTO AND NOT EXISTS /proc/driver/nvidia/version
       AND NOT EXISTS /dev/nvidiactl AND NOT EXISTS /dev/dxg)
  set(cuda_lacks "no NVIDIA driver is installed; set TRANSHIP_CUDA=ON to build for other machines")
else()
  if(CMAKE_CUDA_COMPILER)
    set(TRANSHIP_NVCC ${CMAKE_CUDA_COMPILER} CACHE FILEPATH "The CUDA compiler")
  endif()
  # A folder that a build environment removed is looked for again.
  if(TRANSHIP_NVCC AND NOT EXISTS ${TRANSHIP_NVCC})
    unset(TRANSHIP_NVCC CACHE)
    unset(CMAKE_CUDA_COMPILER CACHE)
    unset(TRANSHIP_CUDART CACHE)
  endif()
  python_package_dir(nvidia.cu13 cuda_wheel_dir)
  find_program(TRANSHIP_NVCC nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda
               ${cuda_wheel_dir} PATH_SUFFIXES bin DOC "The CUDA compiler")
  if(NOT TRANSHIP_NVCC)
    set(cuda_lacks "no nvcc was found; install the CUDA toolkit, or pip install -r requirements-cuda.txt")
  else()
    try_cuda_compiler(${TRANSHIP_NVCC} cuda_lacks)
  endif()
  if(NOT cuda_lacks)
    file(REAL_PATH ${TRANSHIP_NVCC} cuda_root)
    cmake_path(GET cuda_root PARENT_PATH cuda_root)
    cmake_path(GET cuda_root PARENT_PATH cuda_root)
    find_library(TRANSHIP_CUDART libcudart_static.a NO_DEFAULT_PATH
                 HINTS ${cuda_root} ${cuda_root}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux
                       ${cuda_root}/targets/sbsa-linux
                 PATH_SUFFIXES lib64 lib DOC "CUDA's static runtime")
    if(NOT TRANSHIP_CUDART)
      set(cuda_lacks "libcudart_static.a was not found under ${cuda_root}; install the CUDA runtime's development files")
    endif()
  endif()
endif()

if(cuda_lacks AND TRANSHIP_CUDA STREQUAL ON)
  message(FATAL_ERROR "CUDA was asked for, but ${cuda_lacks}")
elseif(cuda_lacks)
  message(STATUS "CUDA: not in this build (${cuda_lacks})")
else()
  set(CMAKE_CUDA_COMPILER ${TRANSHIP_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${TRANSHIP_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
  # The wheels have lib where nvcc looks for lib64.
  cmake_path(GET TRANSHIP_CUDART PARENT_PATH cudart_dir)
  set(CMAKE_CUDA_FLAGS_INIT -L${cudart_dir})
  if(NOT CMAKE_CUDA_HOST_COMPILER)
    set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
  endif()
  enable_language(CUDA)
  set(tranship_cuda_usable TRUE)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION}: ${TRANSHIP_NVCC}, for ${TRANSHIP_CUDA_ARCHITECTURES}")
endif()

# What compiles and links against the runtime; empty without CUDA.
add_library(tranship_cuda INTERFACE)
if(tranship_cuda_usable)
  target_compile_definitions(tranship_cuda INTERFACE TRANSHIP_CUDA=1)
  target_include_directories(tranship_cuda SYSTEM INTERFACE
                             ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  target_link_libraries(tranship_cuda INTERFACE ${TRANSHIP_CUDART} Threads::Threads
                        ${CMAKE_DL_LIBS} rt)
endif()
