# Compiles for another system with zig, a package of PyPI that brings clang and the C library of each. PYOPNB_TARGET is what zig calls the
# system, such as aarch64-linux-gnu.2.28, CMAKE_SYSTEM_NAME what CMake calls it, PYOPNB_ZIG the program, and
# PYOPNB_LIBGCC, for Linux, what libgcc_s.c becomes.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PYOPNB_TARGET PYOPNB_ZIG PYOPNB_LIBGCC)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${PYOPNB_TARGET}")
set(CMAKE_CXX_COMPILER "${PYOPNB_ZIG}")
set(CMAKE_CXX_COMPILER_ARG1 "c++ -target ${PYOPNB_TARGET}")
set(CMAKE_CXX_FLAGS_INIT -Wno-pass-failed) # clang leaves some loops of diff scalar
set(CMAKE_AR "${PYOPNB_ZIG}")
set(CMAKE_RANLIB "${PYOPNB_ZIG}")

# Read again after CMake's own rules for the system.
set(CMAKE_USER_MAKE_RULES_OVERRIDE "${CMAKE_CURRENT_LIST_FILE}")
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  # Without <LINK_FLAGS>: zig takes no file of linker options, in which nanobind lists the symbols of Python.
  set(link "-shared -s -undefined dynamic_lookup -install_name @rpath/<TARGET_NAME>.so")
  set(CMAKE_CXX_CREATE_SHARED_MODULE "<CMAKE_CXX_COMPILER> ${link} <OBJECTS> <LINK_LIBRARIES> -o <TARGET>")
else()
  set(CMAKE_MODULE_LINKER_FLAGS_INIT -s)
endif()
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "${PYOPNB_LIBGCC}")
endif()
