# cmake --build build --target docs: the API reference from the headers, in <build>/docs/api/index.html
find_program(FLUXFORMER_DOXYGEN doxygen)
mark_as_advanced(FLUXFORMER_DOXYGEN)
if(FLUXFORMER_DOXYGEN)
  configure_file(docs/Doxyfile.in docs/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${FLUXFORMER_DOXYGEN} ${PROJECT_BINARY_DIR}/docs/Doxyfile
                    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "API reference: ${PROJECT_BINARY_DIR}/docs/api/index.html")
else()
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "doxygen is missing (apt-get install doxygen)" COMMAND ${CMAKE_COMMAND} -E false)
endif()
