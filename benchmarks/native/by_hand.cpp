#include "by_hand.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <tuple>
#include <vector>

namespace nb = nanobind;

namespace tranship::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Four = std::array<std::int64_t, 4>;
using Indices = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// One array: address of its first element, bytes of an element, then either a box (extents and
/// strides in elements, innermost first) or a list of blocks of `extents[0]` elements.
using Part = std::tuple<std::uintptr_t, int, Four, Four, Indices>;

template <typename Element>
struct Box {
  Element* memory;
  Four extents;
  Four strides;

  /// Calls `move` with each element of the array and its place in the packed ones.
  template <typename Move>
  Element* each(Element* packed, const Move& move) const {
    for (std::int64_t l = 0; l < extents[3]; ++l) {
      for (std::int64_t k = 0; k < extents[2]; ++k) {
        for (std::int64_t j = 0; j < extents[1]; ++j) {
          Element* row = memory + l * strides[3] + k * strides[2] + j * strides[1];
          if (strides[0] == 1) {
            for (std::int64_t i = 0; i < extents[0]; ++i) move(row[i], packed[i]);
          } else {
            for (std::int64_t i = 0; i < extents[0]; ++i) move(row[i * strides[0]], packed[i]);
          }
          packed += extents[0];
        }
      }
    }
    return packed;
  }
};

template <typename Element>
struct Blocks {
  Element* memory;
  std::int64_t length;
  const std::int32_t* places;
  std::size_t count;

  template <typename Move>
  Element* each(Element* packed, const Move& move) const {
    if (length == 1) {
      for (std::size_t k = 0; k < count; ++k) move(memory[places[k]], packed[k]);
      return packed + count;
    }
    if (length == 3) {
      for (std::size_t k = 0; k < count; ++k) {
        Element* block = memory + 3 * places[k];
        move(block[0], packed[0]);
        move(block[1], packed[1]);
        move(block[2], packed[2]);
        packed += 3;
      }
      return packed;
    }
    for (std::size_t k = 0; k < count; ++k) {
      for (std::int64_t i = 0; i < length; ++i) move(memory[length * places[k] + i], packed[i]);
      packed += length;
    }
    return packed;
  }
};

template <typename Element>
std::byte* move_part(const Part& part, std::byte* packed, bool unpacks) {
  const auto& [address, bytes, extents, strides, places] = part;
  auto* memory = reinterpret_cast<Element*>(address);
  auto* to = reinterpret_cast<Element*>(packed);
  const auto pack = [](Element& in_array, Element& in_packed) { in_packed = in_array; };
  const auto unpack = [](Element& in_array, Element& in_packed) { in_array = in_packed; };
  const auto carry = [&](const auto& shape) {
    return reinterpret_cast<std::byte*>(unpacks ? shape.each(to, unpack) : shape.each(to, pack));
  };
  if (places.size() > 0) {
    return carry(Blocks<Element>{memory, extents[0], places.data(), places.size()});
  }
  return carry(Box<Element>{memory, extents, strides});
}

struct Complex {
  double real;
  double imaginary;
};

/// Returns the mean seconds of `count` turns in which the parts are packed, or unpacked, by hand.
double time_by_hand(const std::vector<Part>& parts, std::uintptr_t packed, bool unpacks,
                    int count) {
  const auto begin = Clock::now();
  for (int turn = 0; turn < count; ++turn) {
    auto* at = reinterpret_cast<std::byte*>(packed);
    for (const Part& part : parts) {
      switch (std::get<1>(part)) {
        case 4: at = move_part<float>(part, at, unpacks); break;
        case 8: at = move_part<double>(part, at, unpacks); break;
        default: at = move_part<Complex>(part, at, unpacks); break;
      }
    }
    asm volatile("" : : "r"(packed) : "memory");
  }
  return std::chrono::duration<double>(Clock::now() - begin).count() / count;
}

}  // namespace

void bind_by_hand(nb::module_& module) {
  module.def("time_by_hand", &time_by_hand, nb::arg("parts"), nb::arg("packed"), nb::arg("unpacks"),
             nb::arg("count"));
}

}  // namespace tranship::bench
