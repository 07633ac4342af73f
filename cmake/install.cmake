# cmake --install, all or one --component of it; the tree may be moved afterwards.
#
#   program        bin/fluxformer, bin/fluxformer-tools (the Python package), decks and job scripts in share/fluxformer, documents in share/doc,
#                  the manual page, completion for bash
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
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.json" PATTERN "*.ipynb" REGEX "/examples/"
        PATTERN "__pycache__" EXCLUDE)

# It takes the Python and the package that the program takes.
configure_file(cmake/fluxformer-tools.in fluxformer-tools @ONLY)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/fluxformer-tools DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
