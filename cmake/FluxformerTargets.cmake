# Compiler flags, and the declaration of a floor.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# Not exported: projects that use the libraries choose their own warnings.
add_library(fluxformer_warnings INTERFACE)
target_compile_options(fluxformer_warnings INTERFACE -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual
  # For clang, names of the sources that are compiled together (FLUXFORMER_UNITY) shadow each other's.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<NOT:$<BOOL:$<TARGET_PROPERTY:FLUXFORMER_MAY_SHADOW>>>>:-Wshadow>
  # g++ 12 warns inside its own headers: AVX-512 intrinsics (GCC bug 105593), std::string + "..." (105651, 105329)
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>
  $<$<BOOL:${FLUXFORMER_WERROR}>:-Werror>)

# Vector instructions: all of the machine that compiles, or x86-64-v2 (SSE 4.2; elsewhere the compiler's baseline). Sizes of
# registers and kernels follow from these flags. Who sets flags of his own has those.
set(FLUXFORMER_MACHINE "")
if(CMAKE_CXX_FLAGS MATCHES "-m(arch|cpu)=")
  string(REGEX MATCH "-m(arch|cpu)=[^ ]+" machine_in_words "${CMAKE_CXX_FLAGS}")
else()
  include(CheckCXXCompilerFlag)
  set(machine_in_words "the compiler's baseline")
  set(candidates "")
  if(FLUXFORMER_NATIVE)
    set(candidates -march=native -mcpu=native)  # g++ has the second where it has not the first (POWER)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(candidates -march=x86-64-v2)
  endif()
  foreach(flag ${candidates})
    string(MAKE_C_IDENTIFIER "FLUXFORMER_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      set(FLUXFORMER_MACHINE ${flag})
      set(machine_in_words ${flag})
      break()
    endif()
  endforeach()
  if(FLUXFORMER_NATIVE AND NOT FLUXFORMER_MACHINE)
    string(APPEND machine_in_words " (it knows no -march=native)")
  endif()
endif()
unset(CMAKE_REQUIRED_QUIET)

# Exported: these flags, and the sanitizers of the libraries.
add_library(fluxformer_flags INTERFACE)
target_compile_features(fluxformer_flags INTERFACE cxx_std_20)
target_compile_options(fluxformer_flags INTERFACE $<$<CONFIG:Release>:-fno-math-errno> ${FLUXFORMER_MACHINE})
# The same source gives bitwise identical results wherever it is inlined only if products and sums are always fused
# by the same rule: the compiler's default (fast) is kept, kernels do not depend on position.
if(FLUXFORMER_SANITIZE)
  # A null pointer faults by itself, which the address sanitizer reports; checking each access for null and for alignment
  # increases compile time by two thirds.
  target_compile_options(fluxformer_flags INTERFACE -fsanitize=${FLUXFORMER_SANITIZE} -fno-omit-frame-pointer
                                                    -fno-sanitize-recover=undefined
                                                    -fno-sanitize=null,alignment,vptr)
  target_link_options(fluxformer_flags INTERFACE -fsanitize=${FLUXFORMER_SANITIZE})
endif()

# Precompiled: headers that nearly every source of the lower floors includes, plus Eigen's core on the floors that compute. They
# take half of a source's compile time. A source still includes what it uses (clang-tidy reads it without them).
set(FLUXFORMER_COMMON_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <functional> <limits> <map> <memory> <numeric>
    <optional> <span> <sstream> <stdexcept> <string> <string_view> <utility> <variant> <vector> <mpi.h> <petscts.h>)

# fluxformer_library(name): what is true of all libraries: Fluxformer::<name> to those who install them.
function(fluxformer_library name)
  target_link_libraries(fluxformer_${name} PUBLIC fluxformer_flags PRIVATE $<BUILD_INTERFACE:fluxformer_warnings>)
  target_include_directories(fluxformer_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/fluxformer>)
  set_target_properties(fluxformer_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS fluxformer_${name} EXPORT Fluxformer ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endfunction()

# fluxformer_unity(target): with FLUXFORMER_UNITY, the sources of a folder are compiled six at a time: a whole build takes less time, a
# build after a change more. run.sh and test.sh switch it on in a new build folder.
function(fluxformer_unity target)
  if(NOT FLUXFORMER_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  # Sources that take long are compiled alone, beside each other.
  list(FILTER sources EXCLUDE REGEX "src/operators/.*/(attention|reaction)[.]cpp")
  set(last_folder "")
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    if(NOT folder STREQUAL last_folder)
      set(last_folder "${folder}")
      string(MD5 group "${folder}")
      set(count 0)
    endif()
    math(EXPR part "${count} / 6")
    math(EXPR count "${count} + 1")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}_${part}")
  endforeach()
endfunction()

# fluxformer_floor(name [PRECOMPILES headers | PRECOMPILED_BY floor] DEPENDS ...): every .cpp below this folder as library
# fluxformer_<name>.
function(fluxformer_floor name)
  cmake_parse_arguments(ARG "" "PRECOMPILED_BY" "PRECOMPILES;DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(fluxformer_${name} STATIC ${sources})
  target_link_libraries(fluxformer_${name} PUBLIC ${ARG_DEPENDS})
  fluxformer_library(${name})
  fluxformer_unity(fluxformer_${name})
  if(ARG_PRECOMPILES)
    target_precompile_headers(fluxformer_${name} PRIVATE ${ARG_PRECOMPILES})
  elseif(ARG_PRECOMPILED_BY)
    target_precompile_headers(fluxformer_${name} REUSE_FROM fluxformer_${ARG_PRECOMPILED_BY})
  endif()
endfunction()
