# Installs BUILD into a folder, builds the program beside this file against it, and runs it.
foreach(command
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${BUILD}/install-test/prefix"
    "${CMAKE_COMMAND};-G;Ninja;-S;${CMAKE_CURRENT_LIST_DIR};-B;${BUILD}/install-test/user;-DCMAKE_PREFIX_PATH=${BUILD}/install-test/prefix"
    "${CMAKE_COMMAND};--build;${BUILD}/install-test/user"
    "${BUILD}/install-test/user/user"
    "${BUILD}/install-test/user/plan"
    "${BUILD}/install-test/prefix/bin/reel;--version")
  execute_process(COMMAND ${command} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${command}:\n${output}")
  endif()
endforeach()
