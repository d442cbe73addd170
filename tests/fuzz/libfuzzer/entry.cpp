// The entry point for libFuzzer: each target is a program.
#include <cstdint>
#include <string_view>

#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tranship::fuzz::Run run = [] {
    for (const auto& target : tranship::fuzz::targets()) {
      if (std::string_view(target.name) == TRANSHIP_FUZZ_TARGET) return target.run;
    }
    __builtin_trap();
  }();
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
