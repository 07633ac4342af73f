# cmake --install, all or one --component of it; the tree may be moved afterwards.
#
#   program        bin/fluxformer, bin/fluxformer-tools (the Python package), decks and job scripts in share/fluxformer, documents in share/doc
#   development    the libraries with their headers as CMake targets:
#
#   find_package(Fluxformer REQUIRED)                          docs/examples/own_term uses them
#   target_link_libraries(own PRIVATE Fluxformer::drivers)     or solvers, analysis, training, model, operators, ...
include(CMakePackageConfigHelpers)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Fluxformer)

foreach(library petsc slepc scalapack hdf5 blas flags)
  set_target_properties(fluxformer_${library} PROPERTIES EXPORT_NAME ${library})
  install(TARGETS fluxformer_${library} EXPORT Fluxformer)
endforeach()
install(EXPORT Fluxformer NAMESPACE Fluxformer:: DESTINATION ${config} COMPONENT development)
write_basic_package_version_file(FluxformerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/FluxformerConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/FluxformerConfigVersion.cmake DESTINATION ${config} COMPONENT development)

install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fluxformer COMPONENT development FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY solvers drivers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fluxformer COMPONENT development FILES_MATCHING PATTERN "*.hpp")

# Side by side, as in the source: a copy of share/fluxformer is a folder to work in.
install(DIRECTORY input jobscripts postprocess DESTINATION ${CMAKE_INSTALL_DATADIR}/fluxformer COMPONENT program USE_SOURCE_PERMISSIONS
        PATTERN "__pycache__" EXCLUDE PATTERN ".gitkeep" EXCLUDE PATTERN "*.egg-info" EXCLUDE PATTERN "build" EXCLUDE)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.json" REGEX "/examples/"
        PATTERN "__pycache__" EXCLUDE)

# The Python of fluxformer-tools: Debian's, with Debian's modules, where it is, otherwise the first one on PATH when it is called.
find_program(FLUXFORMER_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH DOC "Python of fluxformer-tools and of tests")
set(python python3)
if(FLUXFORMER_PYTHON)
  set(python ${FLUXFORMER_PYTHON})
endif()
file(RELATIVE_PATH package ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/fluxformer/postprocess)
configure_file(cmake/fluxformer-tools.in fluxformer-tools @ONLY)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/fluxformer-tools DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
