# Defines kvcost_libtorch and KVCOST_LIBTORCH_LIB_DIR from a CPU build of LibTorch on CMAKE_PREFIX_PATH.
# A CUDA build stops in its own CMake files for want of a toolkit, so it is recognised first.
find_path(KVCOST_LIBTORCH_INCLUDE ATen/ATen.h PATH_SUFFIXES include NO_CMAKE_SYSTEM_PATH)
if(NOT KVCOST_LIBTORCH_INCLUDE)
  message(FATAL_ERROR "LibTorch not found: put a CPU build's folder (the one with include/ and lib/) on "
                      "CMAKE_PREFIX_PATH, or run ./kvcost, which fetches one into .deps/")
endif()
get_filename_component(_torch_root "${KVCOST_LIBTORCH_INCLUDE}" DIRECTORY)
set(KVCOST_LIBTORCH_LIB_DIR "${_torch_root}/lib")
if(EXISTS "${KVCOST_LIBTORCH_LIB_DIR}/libtorch_cuda.so")
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    message(FATAL_ERROR "${_torch_root} is a CUDA build of LibTorch and no CUDA toolkit is installed: use a CPU build "
                        "(pip download --no-deps torch==2.13.0+cpu, from PyTorch's CPU wheel index)")
  endif()
endif()
find_package(Torch REQUIRED PATHS "${_torch_root}" NO_DEFAULT_PATH)
add_library(kvcost_libtorch INTERFACE)
target_link_libraries(kvcost_libtorch INTERFACE ${TORCH_LIBRARIES})
# The OpenMP runtime that LibTorch brings, where it does: two in one process would each start its own threads.
file(GLOB _torch_gomp "${KVCOST_LIBTORCH_LIB_DIR}/libgomp*.so*")
if(_torch_gomp)
  target_compile_options(kvcost_libtorch INTERFACE -fopenmp)
  target_link_libraries(kvcost_libtorch INTERFACE ${_torch_gomp})
else()
  find_package(OpenMP REQUIRED)
  target_link_libraries(kvcost_libtorch INTERFACE OpenMP::OpenMP_CXX)
endif()
