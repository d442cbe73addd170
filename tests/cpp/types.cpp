// Calls every function of tranship::types and every copy between types, and compares with loops by
// hand. Built by tests/python/test_cpp_api.py against the installed package, as face.cpp is.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <tranship/tranship.hpp>
#include "expect.hpp"

namespace {

using ts::Datatype;
namespace types = ts::types;
using Places = std::vector<std::int64_t>;

/// Returns whether a type of 4-byte integers has its elements at these indices, in this order, by
/// packing and unpacking it.
bool lists(const ts::Engine& engine, const Datatype& type, const Places& places) {
  std::vector<std::int32_t> source(200);
  std::iota(source.begin(), source.end(), 1);
  std::vector<std::int32_t> packed(places.size());
  engine.pack(ts::Array(source), type, ts::Array(packed));
  std::vector<std::int32_t> back(source.size());
  engine.unpack(ts::Array(packed), ts::Array(back), type);
  std::vector<std::int32_t> expected;
  std::vector<std::int32_t> expected_back(source.size());
  for (const std::int64_t place : places) {
    const auto index = static_cast<std::size_t>(place);
    expected.push_back(source[index]);
    expected_back[index] = source[index];
  }
  const std::vector<std::byte> own = engine.pack(ts::Array(source), type);
  return packed == expected && back == expected_back && own.size() == 4 * expected.size() &&
         std::memcmp(own.data(), expected.data(), own.size()) == 0 &&
         type.bytes() == static_cast<std::int64_t>(own.size());
}

void check_constructors(const ts::Engine& engine) {
  const Datatype number = types::of<std::int32_t>();
  EXPECT(number.text() == "i4" && types::element("i4").bytes() == 4);
  EXPECT(lists(engine, types::contiguous(3, number), {0, 1, 2}));
  EXPECT(lists(engine, types::vector(3, 2, 4, number), {0, 1, 4, 5, 8, 9}));
  EXPECT(lists(engine, types::hvector(3, 2, 16, number), {0, 1, 4, 5, 8, 9}));
  EXPECT(lists(engine, types::indexed({2, 1}, {7, 3}, number), {7, 8, 3}));
  EXPECT(lists(engine, types::hindexed({2, 1}, {28, 12}, number), {7, 8, 3}));
  const Places places{9, 0, 5};
  EXPECT(lists(engine, types::indexed_block(2, places, number), {9, 10, 0, 1, 5, 6}));
  EXPECT(lists(engine, types::hindexed_block(2, {36, 0, 20}, number), {9, 10, 0, 1, 5, 6}));
  EXPECT(lists(engine, types::structure({1, 2}, {40, 8}, {number, number}), {10, 2, 3}));
  EXPECT(lists(engine, types::subarray({4, 5}, {2, 2}, {1, 3}, number), {8, 9, 13, 14}));
  EXPECT(lists(engine, types::subarray({4, 5}, {2, 2}, {1, 3}, number, ts::Order::fortran),
               {13, 14, 17, 18}));
  using Kind = types::Distribution::Kind;
  EXPECT(lists(engine, types::darray(1, {4, 5}, {{Kind::cyclic, 1}, {}}, {2, 1}, number),
               {5, 6, 7, 8, 9, 15, 16, 17, 18, 19}));
  EXPECT(lists(engine,
               types::darray(1, {4, 5}, {{}, {Kind::block}}, {1, 2}, number, ts::Order::fortran),
               {12, 13, 14, 15, 16, 17, 18, 19}));
  EXPECT(lists(engine, types::contiguous(3, types::resized(number, 0, 12)), {0, 3, 6}));
  const std::vector<std::int32_t> some(4);
  EXPECT(engine.pack(ts::Array(some), types::contiguous(0, number)).empty());
}

void check_properties() {
  struct Particle {
    double position;
    std::int32_t id;
  };
  const Datatype fields =
      types::structure({1, 1}, {offsetof(Particle, position), offsetof(Particle, id)},
                       {types::of<double>(), types::of<std::int32_t>()});
  EXPECT(fields.bytes() == 12 && fields.extent() == sizeof(Particle));
  EXPECT(fields.lower_bound() == 0 && fields.true_lower_bound() == 0);
  EXPECT(fields.true_upper_bound() == 12);
  Datatype copied = fields;
  EXPECT(copied.handle() == fields.handle());
  copied = types::resized(fields, -8, 32);
  EXPECT(copied.lower_bound() == -8 && copied.extent() == 32 && fields.extent() == 16);
  EXPECT(Datatype().handle() == nullptr && Datatype().bytes() == 0 && Datatype().text().empty());
  static_assert(std::is_nothrow_move_constructible_v<Datatype>);
}

void check_copies(const ts::Engine& engine) {
  const Datatype number = types::of<double>();
  const Datatype column = types::vector(6, 1, 4, number);
  const std::vector<double> matrix = counted(24);
  std::vector<double> row(6);
  engine.copy(ts::Array(matrix), ts::Array(row), column, types::contiguous(6, number)).wait();
  for (std::size_t k = 0; k < 6; ++k) EXPECT(row[k] == matrix[4 * k]);
  std::vector<double> other(24);
  std::vector<double> raw(6);
  const ts::Instance from = engine.instance(ts::Array(matrix));
  const ts::Instance to = engine.instance(ts::Array(other));
  const ts::Instance bytes = engine.instance(ts::Array(raw));
  const std::array<ts::TypedPair, 2> pairs{
      {{&from, &to, types::contiguous(6, number), column}, {&from, &bytes, column}}};
  engine.copy_types(pairs, {.priority = 1}).wait();
  for (std::size_t k = 0; k < 6; ++k) EXPECT(other[4 * k] == matrix[k] && raw[k] == row[k]);
  engine.copy_types({}).wait();
  const ts::PreparedCopy all = engine.prepare_types(pairs);
  std::fill(raw.begin(), raw.end(), 0);
  all.start().wait();
  EXPECT(raw == row);
}

void check_lifetimes(const ts::Engine& engine) {
  std::vector<double> matrix = counted(24);
  std::vector<double> packed(6);
  std::optional<ts::PreparedCopy> copy;
  {
    const Datatype column = types::vector(6, 1, 4, types::of<double>());
    copy.emplace(engine.prepare(ts::Array(matrix), ts::Array(packed), column, {}));
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (double& value : matrix) value += 1;
    copy->start().wait();
    for (std::size_t k = 0; k < 6; ++k) EXPECT(packed[k] == matrix[4 * k]);
  }
}

void check_packers() {
  const std::vector<double> matrix = counted(24);
  std::vector<double> packed(6);
  std::vector<double> other(24);
  std::optional<ts::Packer> packer(types::vector(3, 1, 4, types::of<double>()));
  EXPECT(packer->bytes() == 24);
  packer.emplace(types::vector(6, 1, 4, types::of<double>()), 1);
  const ts::Packer copy = *packer;
  packer.reset();
  copy.pack(matrix.data(), packed.data());
  copy.unpack(packed.data(), other.data());
  for (std::size_t k = 0; k < 24; ++k) EXPECT(other[k] == (k % 4 == 0 ? matrix[k] : 0));
  const ts::Packer twice(types::vector(2, 1, 0, types::of<double>()));
  EXPECT(throws<ts::InvalidArgument>([&] { twice.unpack(packed.data(), other.data()); }));
  EXPECT(throws<ts::InvalidArgument>([&] { ts::Packer({}); }));
}

void check_refusals(const ts::Engine& engine) {
  const Datatype number = types::of<float>();
  const Datatype twice = types::vector(2, 1, 0, number);
  std::vector<float> source(8);
  std::vector<float> target(8);
  const std::vector<float> constant(8);
  const auto copy = [&](const Datatype& from, const Datatype& to) {
    engine.copy(ts::Array(source), ts::Array(target), from, to).wait();
  };
  EXPECT(throws<ts::InvalidArgument>([&] { types::element("f7"); }));
  EXPECT(throws<ts::InvalidArgument>([&] { types::contiguous(-1, number); }));
  EXPECT(throws<ts::InvalidArgument>([&] { types::contiguous(1, {}); }));
  EXPECT(throws<ts::OutOfRange>([&] { types::contiguous(std::int64_t{1} << 61, number); }));
  std::string hint;
  EXPECT(throws<ts::InvalidArgument>([&] { types::indexed({1, 2}, {1}, number); }, &hint));
  EXPECT(hint == "give as many of each");
  EXPECT(throws<ts::InvalidArgument>([&] { types::hindexed({1}, {}, number); }));
  EXPECT(throws<ts::InvalidArgument>([&] { types::structure({1}, {0}, {}); }));
  EXPECT(throws<ts::InvalidArgument>([&] { types::subarray({4}, {2, 2}, {0}, number); }));
  EXPECT(throws<ts::InvalidArgument>([&] { types::darray(0, {4}, {}, {1}, number); }));
  EXPECT(throws<ts::InvalidArgument>([&] { copy(number, types::of<std::int32_t>()); }));
  EXPECT(throws<ts::InvalidArgument>([&] { copy(types::contiguous(2, number), twice); }));
  EXPECT(throws<ts::InvalidArgument>([&] { copy({}, {}); }));
  EXPECT(throws<ts::OutOfRange>([&] { copy(types::contiguous(9, number), {}); }));
  EXPECT(throws<ts::InvalidArgument>(
      [&] { engine.unpack(ts::Array(source), ts::Array(constant), number); }));
  EXPECT(throws<ts::InvalidArgument>(
      [&] { engine.pack(ts::Array(source), number, {.region = {{"d0", 0, 1}}}); }));
  EXPECT(throws<ts::OutOfRange>([&] {
    engine.prepare(ts::Array(source), ts::Array(target), types::contiguous(9, number), {});
  }));
}

}  // namespace

int main() {
  ts::Engine engine({.settings = {{"threads", "2"}, {"gpus", "0"}}});
  check_constructors(engine);
  check_properties();
  check_copies(engine);
  check_lifetimes(engine);
  check_packers();
  check_refusals(engine);
  engine.close();
  std::vector<double> values(2);
  EXPECT(throws<ts::Closed>([&] { engine.pack(ts::Array(values), types::of<double>()); }));
}
