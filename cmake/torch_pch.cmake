# The one precompiled header of all torch rooms. It takes half a minute once, then saves as much
# for each file.
add_library(trib_torch_pch STATIC cmake/torch_pch.cpp)
target_precompile_headers(trib_torch_pch PRIVATE cmake/torch_pch.h)
target_link_libraries(trib_torch_pch PUBLIC torch::cpu)
target_compile_options(trib_torch_pch PRIVATE ${TRIB_WARNINGS} -fpch-preprocess -Winvalid-pch)
