# Compiles for Linux on AArch64 by clang and Debian's libraries for it (libstdc++-12-dev-arm64-cross), and runs the result
# under qemu-user:
#
#     cmake --preset arm64 && cmake --build --preset arm64          # or `make arm64`, which installs the packages as well
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=lld)
set(CMAKE_SHARED_LINKER_FLAGS_INIT -fuse-ld=lld)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)

# FlatBuffers is headers alone. The other headers beside them are for another machine.
find_path(flatbuffers_dir flatbuffers/flatbuffers.h PATHS /usr/include /usr/local/include REQUIRED NO_CACHE)
set(FLATBUFFERS_INCLUDE_DIR "${CMAKE_BINARY_DIR}/flatbuffers")
file(MAKE_DIRECTORY "${FLATBUFFERS_INCLUDE_DIR}")
file(CREATE_LINK "${flatbuffers_dir}/flatbuffers" "${FLATBUFFERS_INCLUDE_DIR}/flatbuffers" SYMBOLIC)
