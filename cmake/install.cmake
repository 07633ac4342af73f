# cmake --install: the program (drivers/), the libraries with their headers as CMake targets, decks and scripts.
#
#   find_package(Fluxformer REQUIRED)                          docs/examples/own_term uses them
#   target_link_libraries(own PRIVATE Fluxformer::drivers)     or solvers, analysis, training, model, operators, ...
include(CMakePackageConfigHelpers)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/Fluxformer)

foreach(library petsc slepc scalapack hdf5 blas flags)
  set_target_properties(fluxformer_${library} PROPERTIES EXPORT_NAME ${library})
  install(TARGETS fluxformer_${library} EXPORT Fluxformer)
endforeach()
install(EXPORT Fluxformer NAMESPACE Fluxformer:: DESTINATION ${config})
install(FILES cmake/FluxformerConfig.cmake DESTINATION ${config})
write_basic_package_version_file(FluxformerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/FluxformerConfigVersion.cmake DESTINATION ${config})

install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fluxformer FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY solvers drivers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/fluxformer FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY input jobscripts postprocess DESTINATION ${CMAKE_INSTALL_DATADIR}/fluxformer
        PATTERN "__pycache__" EXCLUDE PATTERN ".gitkeep" EXCLUDE PATTERN "*.egg-info" EXCLUDE PATTERN "build" EXCLUDE)
