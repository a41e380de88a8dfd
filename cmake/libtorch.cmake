# Imported targets for the libtorch inside a Python environment:
#   torch::cpu   ATen, autograd, C++ API, c10d with Gloo
#   torch::cuda  adds libtorch_cuda, the CUDA runtime and NCCL (only with TRIB_CUDA)
# find_package(Torch) is not used: with the PyPI wheel it demands a CUDA toolkit for a CPU build.
if(NOT TRIB_TORCH_DIR)
  execute_process(  # find_spec does not import torch: fast, works without the CUDA wheels
    COMMAND ${TRIB_PYTHON} -c
      "import importlib.util as u,os;print(os.path.dirname(u.find_spec('torch').origin),end='')"
    OUTPUT_VARIABLE torch_dir RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    message(FATAL_ERROR "no torch for ${TRIB_PYTHON}: run `make setup`, or set TRIB_PYTHON")
  endif()
  set(TRIB_TORCH_DIR "${torch_dir}" CACHE PATH "site-packages/torch")
endif()
file(STRINGS "${TRIB_TORCH_DIR}/version.py" torch_version REGEX "^__version__")
string(REGEX REPLACE ".*'([0-9.]+).*" "\\1" torch_version "${torch_version}")
if(NOT torch_version VERSION_EQUAL 2.11.0)
  message(WARNING "torch ${torch_version}: only 2.11.0 is tested")
endif()

function(trib_import name file)
  add_library(torch::${name} SHARED IMPORTED GLOBAL)
  set_target_properties(torch::${name} PROPERTIES IMPORTED_LOCATION "${file}")
endfunction()

trib_import(c10 "${TRIB_TORCH_DIR}/lib/libc10.so")
trib_import(torch_cpu "${TRIB_TORCH_DIR}/lib/libtorch_cpu.so")
target_include_directories(torch::c10 SYSTEM INTERFACE "${TRIB_TORCH_DIR}/include")
target_include_directories(torch::torch_cpu SYSTEM INTERFACE
  "${TRIB_TORCH_DIR}/include/torch/csrc/api/include")
target_compile_definitions(torch::torch_cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# at::parallel_for is a template: without OpenMP in our own sources it runs on one thread. The library
# of threads must be that of libtorch, a second one in the process would have threads of its own.
trib_import(gomp "${TRIB_TORCH_DIR}/lib/libgomp.so.1")
target_compile_options(torch::torch_cpu INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(torch::torch_cpu INTERFACE torch::c10 torch::gomp)
add_library(torch::cpu ALIAS torch::torch_cpu)

if(TRIB_CUDA)
  find_package(CUDAToolkit 13.0 REQUIRED)
  get_filename_component(wheels "${TRIB_TORCH_DIR}/../nvidia" ABSOLUTE)
  trib_import(cudart "${wheels}/cu13/lib/libcudart.so.13")
  trib_import(nccl "${wheels}/nccl/lib/libnccl.so.2")
  trib_import(c10_cuda "${TRIB_TORCH_DIR}/lib/libc10_cuda.so")
  trib_import(torch_cuda "${TRIB_TORCH_DIR}/lib/libtorch_cuda.so")
  target_include_directories(torch::cudart SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_include_directories(torch::nccl SYSTEM INTERFACE "${wheels}/nccl/include")
  target_link_libraries(torch::c10_cuda INTERFACE torch::c10 torch::cudart)
  target_link_libraries(torch::torch_cuda INTERFACE torch::torch_cpu torch::c10_cuda torch::nccl)
  target_compile_definitions(torch::torch_cuda INTERFACE USE_C10D_NCCL)
  add_library(torch::cuda ALIAS torch::torch_cuda)
endif()
