# What a shell offers of the program: completion (bash) and the manual page. Made from `fluxformer --describe=json` when the program has been
# built, into folders like those of an installed tree.
set(scripts_python ${FLUXFORMER_PYTHON})
if(NOT scripts_python)
  find_program(FLUXFORMER_ANY_PYTHON python3)
  mark_as_advanced(FLUXFORMER_ANY_PYTHON)
  set(scripts_python ${FLUXFORMER_ANY_PYTHON})
endif()
if(NOT scripts_python OR CMAKE_CROSSCOMPILING)
  message(STATUS "Neither completion nor manual page: they need python3, and a program that runs here")
  return()
endif()

file(GLOB_RECURSE package_sources CONFIGURE_DEPENDS postprocess/fluxformer/*.py)  # the options of commands

# fluxformer_page(script output destination): docs/<script>.py writes <build>/share/<output>, which is installed in a folder of the tree. The
# address sanitizer is not asked for leaks.
function(fluxformer_page script output destination)
  set(output ${PROJECT_BINARY_DIR}/share/${output})
  cmake_path(GET output PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 PYTHONDONTWRITEBYTECODE=1
            ${scripts_python} ${PROJECT_SOURCE_DIR}/docs/${script}.py $<TARGET_FILE:fluxformer> ${output}
    DEPENDS fluxformer ${PROJECT_SOURCE_DIR}/docs/${script}.py ${PROJECT_SOURCE_DIR}/docs/describe.py
            ${PROJECT_SOURCE_DIR}/postprocess/fluxformer/commands.json ${package_sources}
    COMMENT "docs/${script}.py: ${output}" VERBATIM)
  add_custom_target(${script} ALL DEPENDS ${output})
  install(CODE "if(NOT EXISTS \"${output}\")
    message(FATAL_ERROR \"${output} is missing: cmake --build ${PROJECT_BINARY_DIR} makes all that is installed\")
  endif()" COMPONENT program)
  install(FILES ${output} DESTINATION ${destination} COMPONENT program)
endfunction()
fluxformer_page(completion bash-completion/completions/fluxformer ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
fluxformer_page(manual man/man1/fluxformer.1 ${CMAKE_INSTALL_MANDIR}/man1)
