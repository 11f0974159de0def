# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=... -P clang_format.cmake: every C++ file in git is as .clang-format says. Prints SKIPPED without the tool.
find_program(clang_format clang-format)
find_program(git git)
if(NOT clang_format OR NOT git OR NOT EXISTS ${ROOT}/.git)
  message("SKIPPED: needs clang-format, git and a checkout")
  return()
endif()
execute_process(COMMAND ${git} -c safe.directory=* ls-files *.h *.cc *.c WORKING_DIRECTORY ${ROOT}
                OUTPUT_VARIABLE files OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" files "${files}")
list(FILTER files EXCLUDE REGEX "^tests/golden/")
execute_process(COMMAND ${clang_format} --dry-run -Werror ${files} WORKING_DIRECTORY ${ROOT} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "repair the files named above: git ls-files \"*.h\" \"*.cc\" \"*.c\" | xargs clang-format -i")
endif()
list(LENGTH files count)
message("${count} files are formatted")
