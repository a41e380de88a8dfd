# Imported targets for the Apache Arrow inside a Python environment (the wheel pyarrow):
#   arrow::arrow, arrow::parquet
# TRIB_ARROW is on when it is there; without it the program says that it reads no tables.
if(NOT TRIB_ARROW_DIR)
  execute_process(
    COMMAND ${TRIB_PYTHON} -c
      "import importlib.util as u,os;print(os.path.dirname(u.find_spec('pyarrow').origin),end='')"
    OUTPUT_VARIABLE arrow_dir RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(TRIB_ARROW_DIR "${arrow_dir}" CACHE PATH "site-packages/pyarrow")
  endif()
endif()
if(TRIB_ARROW_DIR)
  file(GLOB arrow_library "${TRIB_ARROW_DIR}/libarrow.so.*")
  file(GLOB parquet_library "${TRIB_ARROW_DIR}/libparquet.so.*")
endif()
if(arrow_library AND parquet_library)
  set(TRIB_ARROW ON)
  foreach(name arrow parquet)
    add_library(arrow::${name} SHARED IMPORTED GLOBAL)
    set_target_properties(arrow::${name} PROPERTIES IMPORTED_LOCATION "${${name}_library}")
    target_include_directories(arrow::${name} SYSTEM INTERFACE "${TRIB_ARROW_DIR}/include")
  endforeach()
  target_link_libraries(arrow::parquet INTERFACE arrow::arrow)
else()
  set(TRIB_ARROW OFF)
  message(STATUS "no pyarrow for ${TRIB_PYTHON}: built without Parquet and Arrow; `make setup` installs it")
endif()
