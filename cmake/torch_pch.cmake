# The one precompiled header of all torch rooms; docs/toolchain notes: 27 s once, 4 s a file after.
add_library(trib_torch_pch STATIC cmake/torch_pch.cpp)
target_precompile_headers(trib_torch_pch PRIVATE cmake/torch_pch.h)
target_link_libraries(trib_torch_pch PUBLIC torch::cpu)
if(TRIB_CUDA)
  target_link_libraries(trib_torch_pch PUBLIC torch::cuda)
endif()
target_compile_options(trib_torch_pch PRIVATE ${TRIB_WARNINGS} -fpch-preprocess -Winvalid-pch)
