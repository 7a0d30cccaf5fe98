# Run by every build (cmake -DSOURCE=... -DOUT=... -P): writes the commit to OUT if it is another than before.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed OR commit STREQUAL "")
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "// Made by every build.\n#define KVCOST_COMMIT \"${commit}\"\n")
