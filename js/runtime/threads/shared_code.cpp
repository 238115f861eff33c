#include "shared_code.h"

#include <list>

namespace tenon::runtime {
namespace {

struct Code {
  const void* owner;
  uint32_t number;
  std::vector<uint8_t> module;
  std::vector<uint32_t> places;
};

std::list<Code> codes;
uint32_t published = 0;             // the number of the last
thread_local uint32_t adopted = 0;  // likewise, in this thread

}  // namespace

void publish_code(const void* owner, std::vector<uint8_t> module, std::vector<uint32_t> places) {
  codes.push_back({owner, ++published, std::move(module), std::move(places)});
}

void withdraw_code(const void* owner) {
  std::erase_if(codes, [&](const Code& code) { return code.owner == owner; });
}

void adopt_code() {
  if (adopted == published) return;
  for (const Code& code : codes) {
    if (code.number <= adopted) continue;
    char text[1];  // the thread that published it instantiated the same, and told what was wrong
    tenon_instantiate(code.module.data(), code.module.size(), code.places.data(), code.places.size(), text, 0);
  }
  adopted = published;
}

}  // namespace tenon::runtime
