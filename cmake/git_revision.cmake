# Writes OUTPUT, a header with the revision of SOURCE, if it has changed. Run at build time:
#   cmake -DSOURCE=<tree> -DOUTPUT=<header> -P git_revision.cmake

set(revision "unknown")
set(dirty "unknown")
find_program(GIT git)
# A copy of the tree inside another repository has no revision of its own.
if(GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND ${GIT} -C "${SOURCE}" rev-parse HEAD
                  OUTPUT_VARIABLE head RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(revision "${head}")
    execute_process(COMMAND ${GIT} -C "${SOURCE}" --no-optional-locks status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(failed)
      set(dirty "unknown")
    elseif(changes STREQUAL "")
      set(dirty "false")
    else()
      set(dirty "true")
    endif()
  endif()
endif()

set(text "#pragma once

namespace fluxformer {

inline constexpr const char* git_revision = \"${revision}\";
inline constexpr const char* git_dirty = \"${dirty}\";

}  // namespace fluxformer
")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${OUTPUT}" "${text}")
endif()
