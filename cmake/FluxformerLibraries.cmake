# External libraries: found, or refused, and what Fluxformer's own libraries link as targets.

# What cannot be used is refused here, each in one sentence with the package: the compiler would say so late, in other words, or not at all.
foreach(least "GNU;12;g++" "Clang;16;clang++")
  list(GET least 1 version)
  list(GET least 2 name)
  if(CMAKE_CXX_COMPILER_ID IN_LIST least AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS version)
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is ${name} ${CMAKE_CXX_COMPILER_VERSION}. Fluxformer needs ${name} ${version} or newer, for C++20 and "
      "vector shuffles (on Debian 12: g++ or clang-16; spack: gcc@12:). Name another one by -DCMAKE_CXX_COMPILER=... in an empty build folder.")
  endif()
endforeach()
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$")
  message(WARNING "Fluxformer was tried with g++ and clang++, not with ${CMAKE_CXX_COMPILER} (${CMAKE_CXX_COMPILER_ID}).")
endif()

# fluxformer_missing(library debian spack [more]): a library that is not here.
function(fluxformer_missing library debian spack)
  message(FATAL_ERROR "Fluxformer needs ${library}, which CMake does not find here. Install it (on Debian: ${debian}; spack: ${spack}), or load its "
    "module${ARGN}, and configure in an empty build folder.")
endfunction()
# fluxformer_find(debian spack package [version] ...): find_package, and the names of the package.
macro(fluxformer_find debian spack package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    string(REGEX MATCH "^[0-9.]+" needed_version "${ARGN}")
    fluxformer_missing("${package} ${needed_version}" ${debian} ${spack})
  endif()
endmacro()
fluxformer_find(pkg-config pkgconf PkgConfig)
fluxformer_find(libopenmpi-dev openmpi MPI COMPONENTS C)
fluxformer_find(libeigen3-dev eigen@3.4: Eigen3 3.4 NO_MODULE)
fluxformer_find(libboost-program-options-dev boost@1.74:+program_options Boost 1.74 CONFIG COMPONENTS program_options)
fluxformer_find(zlib1g-dev zlib ZLIB)
fluxformer_find(libarchive-dev libarchive LibArchive)
fluxformer_find(libpng-dev libpng PNG)
fluxformer_find(libnanoflann-dev nanoflann@1.4: nanoflann 1.4)
fluxformer_find(nlohmann-json3-dev nlohmann-json@3.11: nlohmann_json 3.11)

# All libraries must be of one MPI: of several that are installed, those of the MPI that CMake found.
include(CheckSourceCompiles)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # no linking
set(CMAKE_REQUIRED_QUIET ON)
set(CMAKE_REQUIRED_INCLUDES ${MPI_C_INCLUDE_DIRS})
check_source_compiles(C "#include <mpi.h>
#ifndef OPEN_MPI
#error another
#endif" FLUXFORMER_MPI_IS_OPENMPI)
check_source_compiles(C "#include <mpi.h>
#ifndef MPICH_VERSION
#error another
#endif" FLUXFORMER_MPI_IS_MPICH)
set(FLUXFORMER_MPI mpi)  # another one
if(FLUXFORMER_MPI_IS_OPENMPI)
  set(FLUXFORMER_MPI openmpi)
elseif(FLUXFORMER_MPI_IS_MPICH)  # and what descends from it
  set(FLUXFORMER_MPI mpich)
endif()

pkg_check_modules(PETSC QUIET PETSc>=3.18)
if(NOT PETSC_FOUND)
  fluxformer_missing("PETSc 3.18 or newer" petsc-dev petsc@3.18:+mpi+double~complex~int64 ", or put the folder of PETSc.pc into PKG_CONFIG_PATH")
endif()

# fluxformer_unfit(library found fault needed): a library that was built in another way.
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
# PETSc's header compares the MPI that it was built with.
set(CMAKE_REQUIRED_INCLUDES ${MPI_C_INCLUDE_DIRS} ${PETSC_INCLUDE_DIRS})
check_source_compiles(C "#include <petscsys.h>" FLUXFORMER_PETSC_IS_OF_THIS_MPI)
if(NOT FLUXFORMER_PETSC_IS_OF_THIS_MPI)
  unset(FLUXFORMER_PETSC_IS_OF_THIS_MPI CACHE)
  fluxformer_unfit(PETSc "${petsc_configuration}" "was built with another MPI, or its headers are damaged"
    "one of the MPI that CMake finds (${MPI_C_LIBRARIES}; -DMPI_C_COMPILER=mpicc chooses another one)")
endif()

pkg_check_modules(SLEPC QUIET slepc>=3.18)
if(NOT SLEPC_FOUND)
  fluxformer_missing("SLEPc 3.18 or newer" slepc-dev slepc@3.18: ", or put the folder of slepc.pc into PKG_CONFIG_PATH")
endif()
pkg_search_module(HDF5 QUIET hdf5-${FLUXFORMER_MPI}>=1.10 hdf5>=1.10)
if(NOT HDF5_FOUND)
  fluxformer_missing("HDF5 1.10 or newer" libhdf5-${FLUXFORMER_MPI}-dev hdf5+mpi+hl ", or put the folder of hdf5.pc into PKG_CONFIG_PATH")
endif()
set(CMAKE_REQUIRED_INCLUDES ${HDF5_INCLUDE_DIRS})
check_source_compiles(C "#include <H5pubconf.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif" FLUXFORMER_HDF5_IS_PARALLEL)
if(NOT FLUXFORMER_HDF5_IS_PARALLEL)
  unset(FLUXFORMER_HDF5_IS_PARALLEL CACHE)
  fluxformer_unfit(HDF5 "module ${HDF5_MODULE_NAME}" "is serial, or its headers are missing"
    "the parallel one, with MPI (on Debian: libhdf5-${FLUXFORMER_MPI}-dev; spack: hdf5+mpi)")
endif()
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)

# fluxformer_of_this_mpi(library debian files ...): refuses a library with the marks of another MPI: Open MPI's constants are variables of these names,
# MPICH and what descends from it have one name of their shared library.
function(fluxformer_of_this_mpi library debian)
  foreach(file ${ARGN})
    if(NOT EXISTS "${file}")
      continue()
    endif()
    file(STRINGS "${file}" of_openmpi REGEX "ompi_mpi_" LIMIT_COUNT 1)
    file(STRINGS "${file}" of_mpich REGEX "^libmpi[a-z0-9_]*[.]so[.]12$" LIMIT_COUNT 1)
    set(other "")
    if(FLUXFORMER_MPI STREQUAL "openmpi" AND of_mpich AND NOT of_openmpi)
      set(other "MPICH")
    elseif(FLUXFORMER_MPI STREQUAL "mpich" AND of_openmpi)
      set(other "Open MPI")
    endif()
    if(other)
      message(FATAL_ERROR "${file} was built with ${other}, but CMake finds another MPI (${MPI_C_LIBRARIES}). Fluxformer needs ${library} of that MPI "
        "(on Debian: ${debian}; spack: one MPI for the environment), or another MPI, chosen by -DMPI_C_COMPILER=mpicc, in an empty build folder.")
    endif()
  endforeach()
endfunction()
fluxformer_of_this_mpi(HDF5 libhdf5-${FLUXFORMER_MPI}-dev ${HDF5_LINK_LIBRARIES})

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

# Private to analysis: matrices over several ranks. May be given: one library, or several with ";" between them, or options of the linker.
if(NOT FLUXFORMER_SCALAPACK)
  find_library(FLUXFORMER_SCALAPACK NAMES scalapack-${FLUXFORMER_MPI} scalapack)
  if(NOT FLUXFORMER_SCALAPACK)
    fluxformer_missing(ScaLAPACK libscalapack-${FLUXFORMER_MPI}-dev netlib-scalapack
      ", or name another one (-DFLUXFORMER_SCALAPACK=...: MKL's libraries, Cray's -lsci_gnu_mpi)")
  endif()
endif()
fluxformer_of_this_mpi(ScaLAPACK libscalapack-${FLUXFORMER_MPI}-dev ${FLUXFORMER_SCALAPACK})
add_library(fluxformer_scalapack INTERFACE)
target_link_libraries(fluxformer_scalapack INTERFACE ${FLUXFORMER_SCALAPACK} MPI::MPI_C)

# Beside HDF5, also where that is a link: another one would bring another HDF5.
string(REGEX REPLACE ";.*" "" hdf5_library "${HDF5_LINK_LIBRARIES}")
file(REAL_PATH "${hdf5_library}" hdf5_folder)
cmake_path(GET hdf5_folder PARENT_PATH hdf5_folder)
find_library(HDF5_HL_LIBRARY NAMES hdf5_${FLUXFORMER_MPI}_hl hdf5_hl PATHS ${HDF5_LIBRARY_DIRS} ${hdf5_folder} NO_DEFAULT_PATH)
if(NOT HDF5_HL_LIBRARY)
  fluxformer_missing("HDF5's high-level library (hdf5_hl) beside ${hdf5_library}" libhdf5-${FLUXFORMER_MPI}-dev hdf5+mpi+hl)
endif()
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
  find_library(FLUXFORMER_OPENBLAS NAMES openblas)
  if(NOT FLUXFORMER_OPENBLAS)
    fluxformer_missing(OpenBLAS libopenblas-serial-dev "openblas threads=none" ", or choose another one (-DFLUXFORMER_BLAS=blis, or eigen with any LAPACK)")
  endif()
  target_link_libraries(fluxformer_blas INTERFACE ${FLUXFORMER_OPENBLAS})
  target_compile_definitions(fluxformer_blas INTERFACE EIGEN_USE_BLAS FLUXFORMER_OPENBLAS)  # it has LAPACK, too
elseif(FLUXFORMER_BLAS STREQUAL "blis")
  find_library(FLUXFORMER_BLIS NAMES blis PATH_SUFFIXES blis-serial)
  if(NOT FLUXFORMER_BLIS)
    fluxformer_missing(BLIS libblis-serial-dev "blis threads=none")
  endif()
  target_link_libraries(fluxformer_blas INTERFACE ${FLUXFORMER_BLIS})
  target_compile_definitions(fluxformer_blas INTERFACE EIGEN_USE_BLAS FLUXFORMER_BLIS)
elseif(NOT FLUXFORMER_BLAS STREQUAL "eigen")
  message(FATAL_ERROR "FLUXFORMER_BLAS must be openblas, blis or eigen, not '${FLUXFORMER_BLAS}'")
endif()
if(NOT FLUXFORMER_BLAS STREQUAL "openblas")
  fluxformer_find(liblapack-dev netlib-lapack LAPACK)
  target_link_libraries(fluxformer_blas INTERFACE ${LAPACK_LIBRARIES})
endif()

# One that was given may be of another kind, or need others.
set(CMAKE_REQUIRED_LIBRARIES ${FLUXFORMER_SCALAPACK} ${FLUXFORMER_OPENBLAS} ${LAPACK_LIBRARIES} MPI::MPI_C)
check_source_compiles(C "void pdpotrf_(void), Cblacs_gridexit(int);
int main(void) { pdpotrf_(), Cblacs_gridexit(0); return 0; }" FLUXFORMER_SCALAPACK_LINKS)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT FLUXFORMER_SCALAPACK_LINKS)
  unset(FLUXFORMER_SCALAPACK_LINKS CACHE)
  message(FATAL_ERROR "FLUXFORMER_SCALAPACK is '${FLUXFORMER_SCALAPACK}', with which pdpotrf_ and Cblacs_gridexit cannot be linked. Name all libraries that "
    "ScaLAPACK needs, with ';' between them, or leave it out (on Debian: libscalapack-${FLUXFORMER_MPI}-dev; spack: netlib-scalapack).")
endif()
message(STATUS "Libraries: MPI ${FLUXFORMER_MPI} (${MPI_C_LIBRARIES}), PETSc ${PETSC_VERSION}, SLEPc ${SLEPC_VERSION}, HDF5 ${HDF5_VERSION} (${hdf5_library}), "
  "ScaLAPACK ${FLUXFORMER_SCALAPACK}")
