# External libraries, compiler flags, and the declaration of a floor.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

find_package(PkgConfig REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(Boost 1.74 REQUIRED CONFIG COMPONENTS program_options)
find_package(ZLIB REQUIRED)
find_package(LibArchive REQUIRED)
find_package(PNG REQUIRED)
find_package(nanoflann 1.4 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
pkg_check_modules(PETSC REQUIRED PETSc)
pkg_check_modules(SLEPC REQUIRED slepc)
pkg_search_module(HDF5 REQUIRED hdf5-openmpi hdf5)

# A library that was built in another way is refused here: the compiler would say so late, in other words, or not at all.
function(fluxformer_unfit library found fault needed)
  message(FATAL_ERROR "The ${library} that pkg-config finds (${found}) ${fault}. Fluxformer needs ${needed}. Install it, or put the folder of its "
    ".pc file first in PKG_CONFIG_PATH, and configure in an empty build folder.")
endfunction()

find_file(petsc_configuration petscconf.h PATHS ${PETSC_INCLUDE_DIRS} NO_CACHE NO_DEFAULT_PATH)
find_file(petsc_configuration petscconf.h NO_CACHE)  # where compilers look by themselves
if(NOT petsc_configuration)
  fluxformer_unfit(PETSc "version ${PETSC_VERSION}" "has no header petscconf.h" "its headers, too (on Debian: petsc-dev)")
endif()
file(STRINGS "${petsc_configuration}" petsc_macros REGEX "^#define ")
foreach(fault "PETSC_USE_COMPLEX:has complex numbers" "PETSC_USE_64BIT_INDICES:has 64-bit indices" "PETSC_USE_REAL_SINGLE:has single precision"
        "PETSC_USE_REAL___FLOAT128:has quadruple precision" "PETSC_HAVE_MPIUNI:was built without MPI")
  string(REGEX REPLACE ":.*" "" macro "${fault}")
  string(REGEX REPLACE ".*:" "" words "${fault}")
  if(petsc_macros MATCHES "#define ${macro}( |;|$)")
    fluxformer_unfit(PETSc "${petsc_configuration}" "${words}"
      "one with real numbers of double precision, 32-bit indices and MPI (on Debian: libpetsc-real-dev; spack: petsc+mpi+double~complex~int64)")
  endif()
endforeach()

include(CheckSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
check_source_compiles(C "#include <H5pubconf.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif
int main(void) { return 0; }" FLUXFORMER_HDF5_IS_PARALLEL)
unset(CMAKE_REQUIRED_INCLUDES)
if(NOT FLUXFORMER_HDF5_IS_PARALLEL)
  unset(FLUXFORMER_HDF5_IS_PARALLEL CACHE)
  fluxformer_unfit(HDF5 "module ${HDF5_MODULE_NAME}" "is serial, or its headers are missing"
    "the parallel one, with MPI (on Debian: libhdf5-openmpi-dev; spack: hdf5+mpi)")
endif()

# Third-party headers are system headers, so that warnings concern our code only. (Debian's PETSc.pc also
# sets _FORTIFY_SOURCE, which warns without optimisation, so only its include folders are used.)
add_library(fluxformer_petsc INTERFACE)
target_include_directories(fluxformer_petsc SYSTEM INTERFACE ${PETSC_INCLUDE_DIRS})
target_link_libraries(fluxformer_petsc INTERFACE ${PETSC_LINK_LIBRARIES} MPI::MPI_C)
target_compile_definitions(fluxformer_petsc INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
# Private to the folders that call SLEPc: no header that others include needs it.
add_library(fluxformer_slepc INTERFACE)
target_include_directories(fluxformer_slepc SYSTEM INTERFACE ${SLEPC_INCLUDE_DIRS})
target_link_libraries(fluxformer_slepc INTERFACE ${SLEPC_LINK_LIBRARIES} fluxformer_petsc)

# Private to analysis: matrices over several ranks. Of the MPI that PETSc was built with.
find_library(FLUXFORMER_SCALAPACK NAMES scalapack-openmpi scalapack REQUIRED)
add_library(fluxformer_scalapack INTERFACE)
target_link_libraries(fluxformer_scalapack INTERFACE ${FLUXFORMER_SCALAPACK} MPI::MPI_C)

find_library(HDF5_HL_LIBRARY NAMES hdf5_openmpi_hl hdf5_hl HINTS ${HDF5_LIBRARY_DIRS} REQUIRED)
add_library(fluxformer_hdf5 INTERFACE)
target_include_directories(fluxformer_hdf5 SYSTEM INTERFACE ${HDF5_INCLUDE_DIRS})
target_link_libraries(fluxformer_hdf5 INTERFACE ${HDF5_HL_LIBRARY} ${HDF5_LINK_LIBRARIES} MPI::MPI_C)

# Matrix products. The measurements behind the default are in docs/performance.md.
add_library(fluxformer_blas INTERFACE)
target_link_libraries(fluxformer_blas INTERFACE Eigen3::Eigen)
# The results of Eigen's own path for tiny products depend on the memory alignment of the operands; restarts must not.
target_compile_definitions(fluxformer_blas INTERFACE EIGEN_GEMM_TO_COEFFBASED_THRESHOLD=1)
# By default Eigen aligns its types for the widest vectors of the machine it is compiled on. Fixed, so that a program compiled on
# another machine lays them out as the installed libraries do.
target_compile_definitions(fluxformer_blas INTERFACE EIGEN_MAX_ALIGN_BYTES=64)
if(FLUXFORMER_BLAS STREQUAL "openblas")
  # Of several that Debian can have beside each other, the one that its alternatives name: PETSc's liblapack belongs to that one, and
  # does not start with another. The program sets one thread per MPI rank.
  find_library(FLUXFORMER_OPENBLAS NAMES openblas REQUIRED)
  target_link_libraries(fluxformer_blas INTERFACE ${FLUXFORMER_OPENBLAS})
  target_compile_definitions(fluxformer_blas INTERFACE EIGEN_USE_BLAS FLUXFORMER_OPENBLAS)  # it has LAPACK, too
elseif(FLUXFORMER_BLAS STREQUAL "blis")
  find_library(FLUXFORMER_BLIS NAMES blis PATH_SUFFIXES blis-serial REQUIRED)
  target_link_libraries(fluxformer_blas INTERFACE ${FLUXFORMER_BLIS})
  target_compile_definitions(fluxformer_blas INTERFACE EIGEN_USE_BLAS FLUXFORMER_BLIS)
elseif(NOT FLUXFORMER_BLAS STREQUAL "eigen")
  message(FATAL_ERROR "FLUXFORMER_BLAS must be openblas, blis or eigen, not '${FLUXFORMER_BLAS}'")
endif()
if(NOT FLUXFORMER_BLAS STREQUAL "openblas")
  find_package(LAPACK REQUIRED)
  target_link_libraries(fluxformer_blas INTERFACE ${LAPACK_LIBRARIES})
endif()

# Not exported: projects that use the libraries choose their own warnings.
add_library(fluxformer_warnings INTERFACE)
target_compile_options(fluxformer_warnings INTERFACE -Wall -Wextra -Wpedantic $<$<NOT:$<BOOL:$<TARGET_PROPERTY:FLUXFORMER_MAY_SHADOW>>>:-Wshadow> -Wnon-virtual-dtor
  -Woverloaded-virtual
  # g++ 12 warns inside its own headers: AVX-512 intrinsics (GCC bug 105593), std::string + "..." (105651, 105329)
  -Wno-maybe-uninitialized -Wno-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds
  $<$<BOOL:${FLUXFORMER_WERROR}>:-Werror>)

# Exported: the instructions of the machine that compiles, and the sanitizers of the libraries.
add_library(fluxformer_flags INTERFACE)
target_compile_features(fluxformer_flags INTERFACE cxx_std_20)
target_compile_options(fluxformer_flags INTERFACE $<$<CONFIG:Release>:-fno-math-errno>
  $<$<BOOL:${FLUXFORMER_NATIVE}>:-march=native>)
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
