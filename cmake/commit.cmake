# trib_define_commit(a.cpp): TRIB_COMMIT in that file is the commit that was built; a new commit
# configures again.
function(trib_define_commit file)
  execute_process(COMMAND git -C "${CMAKE_SOURCE_DIR}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE no_git)
  execute_process(COMMAND git -C "${CMAKE_SOURCE_DIR}" rev-parse --path-format=absolute
    --git-path logs/HEAD OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(no_git)
    set(commit "unknown")
  elseif(EXISTS "${head_log}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${head_log}")
  endif()
  set_property(SOURCE "${file}" APPEND PROPERTY COMPILE_DEFINITIONS "TRIB_COMMIT=\"${commit}\"")
endfunction()
