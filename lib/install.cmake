# The codec for engines: libso4codec (C ABI, lib/so4codec.h), a CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)

add_library(so4codec SHARED $<TARGET_OBJECTS:so4cal_lib>)
set_target_properties(so4codec PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                      EXPORT_NAME codec)
add_library(so4codec_static STATIC $<TARGET_OBJECTS:so4cal_lib>)
set_target_properties(so4codec_static PROPERTIES OUTPUT_NAME so4codec EXPORT_NAME codec_static)
foreach(target so4codec so4codec_static)
  target_link_libraries(${target} PRIVATE hwy::hwy)
  target_include_directories(${target} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

set(so4cal_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/so4cal)
install(TARGETS so4codec so4codec_static EXPORT so4cal
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT codec
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT codec)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/so4codec.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT codec)
install(EXPORT so4cal NAMESPACE so4cal:: FILE so4cal-targets.cmake DESTINATION ${so4cal_package_dir} COMPONENT codec)

file(WRITE ${PROJECT_BINARY_DIR}/so4cal-config.cmake
"include(CMakeFindDependencyMacro)
find_dependency(hwy)  # of the static library
include(\${CMAKE_CURRENT_LIST_DIR}/so4cal-targets.cmake)
")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/so4cal-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/so4cal-config.cmake ${PROJECT_BINARY_DIR}/so4cal-config-version.cmake
        DESTINATION ${so4cal_package_dir} COMPONENT codec)

# Relative to the file itself, so that the installed tree can be moved.
file(RELATIVE_PATH so4codec_prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(WRITE ${PROJECT_BINARY_DIR}/so4codec.pc
"prefix=\${pcfiledir}/${so4codec_prefix_from_pc}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: so4codec
Description: Encode, decode and attend to a rotated, quantized KV cache
Version: ${PROJECT_VERSION}
Requires.private: libhwy
Libs: -L\${libdir} -lso4codec
Libs.private: -lstdc++ -lm
Cflags: -I\${includedir}
")
install(FILES ${PROJECT_BINARY_DIR}/so4codec.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT codec)
