# Puts configs/schema.json into the binary, so that editors and the program read one schema.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/configs/schema.json)
file(READ configs/schema.json KVCOST_SCHEMA_JSON)
configure_file(src/harness/config/schema_text.h.in ${PROJECT_BINARY_DIR}/generated/schema_text.h @ONLY)
