// cmake/elsewhere.cmake says what for. The names in assembly keep these apart from the declarations of glibc's headers.
#include <sys/random.h>
#include <sys/types.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

// glibc 2.35 made another version of hypot the default. The older one sets errno, which nobody here reads.
double older_hypot(double x, double y);
__asm__(".symver older_hypot, hypot@GLIBC_2.2.5");
[[gnu::visibility("hidden")]] double tenon_hypot(double x, double y) __asm__("hypot");
double tenon_hypot(double x, double y) { return older_hypot(x, y); }

// glibc 2.36. LLVM names temporary files by it.
[[gnu::visibility("hidden")]] uint32_t tenon_random() __asm__("arc4random");
uint32_t tenon_random() {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) std::abort();
  return number;
}

}  // extern "C"
