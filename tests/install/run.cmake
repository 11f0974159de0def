# Installs the codec under PREFIX, copies the C program out of the source tree, builds it through find_package and
# through pkg-config with the installed files alone, and runs every build on the golden files.
# Needs SOURCE, BUILD, WORK, C_COMPILER, CXX_COMPILER, LIBDIR; C_FLAGS may hold sanitizers.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\nfailed (${code}):\n${out}")
  endif()
  message(STATUS "${out}")
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix} --component codec)
file(COPY ${SOURCE}/tests/install/outside DESTINATION ${WORK})
set(golden ${SOURCE}/tests/golden/good/row_v1_head_table.bin ${SOURCE}/tests/golden/good/row_v1_head_table_rows.bin)

run(${CMAKE_COMMAND} -S ${WORK}/outside -B ${WORK}/build -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_C_COMPILER=${C_COMPILER}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_C_FLAGS=${C_FLAGS} -DCMAKE_CXX_FLAGS=${C_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/program_shared ${golden})
run(${WORK}/build/program_static ${golden})

set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
find_program(pkg_config pkg-config REQUIRED)
execute_process(COMMAND ${pkg_config} --cflags --libs so4codec OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(c_flags UNIX_COMMAND "${C_FLAGS}")
run(${C_COMPILER} -std=c99 -Wall -Wextra -Werror -pedantic ${c_flags} ${WORK}/outside/program.c -o ${WORK}/program_pkgconfig
    ${flags} -Wl,-rpath,${prefix}/${LIBDIR} -lm)
run(${WORK}/program_pkgconfig ${golden})
