# The Python that the program and fluxformer-tools pass commands to: Debian's, with Debian's modules, where it is, otherwise the first one on
# PATH when it is called; and the way from the folder of the program to the Python package, in an installed tree and in the build folder.
# As fluxformer_python and fluxformer_package.
find_program(FLUXFORMER_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "Python of the commands plot, report, ... and of tests")
set(fluxformer_python python3)
if(FLUXFORMER_PYTHON)
  set(fluxformer_python ${FLUXFORMER_PYTHON})
endif()
file(RELATIVE_PATH fluxformer_package ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/fluxformer/postprocess)

block()
  cmake_path(ABSOLUTE_PATH fluxformer_package BASE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} NORMALIZE OUTPUT_VARIABLE place)
  cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${place} inside)
  if(inside)  # not where the folders of an installed tree have places of their own
    cmake_path(GET place PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/postprocess ${place} SYMBOLIC)
  endif()
endblock()
