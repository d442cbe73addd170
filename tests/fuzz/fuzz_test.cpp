// Runs the fuzzers' targets without libFuzzer: inputs of the corpus, changed at random. To run more
// by hand: test_fuzz strange_ COUNT SEED
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "fuzz/targets.hpp"
#include "support/test.hpp"

using namespace tranship;
using namespace tranship::fuzz;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t input_bytes_max = 4096;

/// The current input, which a failure writes to a file.
Bytes current;

void leave_input(int number) {
  const int file = ::creat("fuzz-failure.bin", 0600);
  (void)!::write(file, current.data(), current.size());
  constexpr char text[] = "the input lies in fuzz-failure.bin in the working folder\n";
  (void)!::write(STDERR_FILENO, text, sizeof text - 1);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

std::vector<Bytes> corpus_of(const std::string& target) {
  const std::filesystem::path folder =
      std::filesystem::path(TRANSHIP_SOURCE_DIR) / "tests/fuzz/corpus" / target;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(text));
    corpus.emplace_back(bytes.begin(), bytes.end());
  }
  return corpus;
}

std::size_t place_in(const Bytes& bytes, Random& random) {
  return static_cast<std::size_t>(random.below(std::ssize(bytes)));
}

/// Writes a number that programs often handle wrongly, in 1, 2, 4 or 8 bytes, at a random place.
void put_number(Bytes& bytes, Random& random) {
  static constexpr std::uint64_t numbers[]{
      0, 1, 2, 0x7f, 0xff, 0x7fff, 0x7fffffff, 0xffffffff, 1ull << 62, ~0ull, 4096, 1ull << 63};
  const std::uint64_t number = numbers[random.below(std::ssize(numbers))];
  const std::size_t length = std::size_t{1} << random.below(4);
  const std::size_t place = place_in(bytes, random);
  std::memcpy(bytes.data() + place, &number, std::min(length, bytes.size() - place));
}

/// Changes the bytes in one of the ways in which fuzzers do.
void change(Bytes& bytes, const std::vector<Bytes>& corpus, Random& random) {
  const auto some = [&] { return static_cast<std::ptrdiff_t>(place_in(bytes, random)); };
  const auto range = [&] {
    const std::ptrdiff_t one = some();
    const std::ptrdiff_t other = some();
    return std::pair(std::min(one, other), std::max(one, other));
  };
  if (bytes.empty()) bytes.resize(1);
  switch (random.below(7)) {
    case 0: bytes[place_in(bytes, random)] = static_cast<std::byte>(random.next()); break;
    case 1: bytes[place_in(bytes, random)] ^= static_cast<std::byte>(1U << random.below(8)); break;
    case 2: put_number(bytes, random); break;
    case 3: bytes.resize(place_in(bytes, random)); break;
    case 4: {
      const auto [low, high] = range();
      bytes.erase(bytes.begin() + low, bytes.begin() + high);
      break;
    }
    case 5: {
      const auto [low, high] = range();
      const Bytes piece(bytes.begin() + low, bytes.begin() + high);
      bytes.insert(bytes.begin() + some(), piece.begin(), piece.end());
      break;
    }
    default: {
      const Bytes& other = corpus[static_cast<std::size_t>(random.below(std::ssize(corpus)))];
      if (!other.empty()) {
        const auto from = other.begin() + random.below(std::ssize(other));
        bytes.resize(place_in(bytes, random));
        bytes.insert(bytes.end(), from, other.end());
      }
    }
  }
  if (bytes.size() > input_bytes_max) bytes.resize(input_bytes_max);
}

void drive(const std::string& name, std::int64_t count) {
  const auto targets = fuzz::targets();
  const auto target = std::find_if(targets.begin(), targets.end(),
                                   [&](const Target& one) { return name == one.name; });
  REQUIRE(target != targets.end());
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGALRM}) ::signal(number, leave_input);
  std::vector<Bytes> corpus = corpus_of(name);
  REQUIRE(!corpus.empty());
  const std::string asked = test::argument(2);
  const std::string seed = test::argument(3);
  if (!asked.empty()) count = std::atoll(asked.c_str());
  Random random(seed.empty() ? 1 : std::strtoull(seed.c_str(), nullptr, 10));
  for (const Bytes& input : corpus) {
    current = input;
    target->run(current);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    current = corpus[static_cast<std::size_t>(random.below(std::ssize(corpus)))];
    for (std::int64_t changes = random.between(1, 6); changes > 0; --changes) {
      change(current, corpus, random);
    }
    ::alarm(30);  // an input that takes 30 s counts as a hang
    target->run(current);
  }
  ::alarm(0);
}

constexpr std::int64_t inputs = 20'000;
/// Number of inputs for targets that open a connection for each input.
constexpr std::int64_t connections = 4'000;

}  // namespace

TEST(strange_frames_are_refused) { drive("frames", inputs); }
TEST(strange_messages_are_refused) { drive("messages", inputs); }
TEST(strange_sockets_are_closed) { drive("socket", connections); }
TEST(strange_links_are_lost) { drive("link", connections); }
TEST(strange_commands_touch_nothing_outside) { drive("commands", inputs); }
TEST(strange_slots_touch_nothing_outside) { drive("slots", inputs); }
TEST(strange_answers_in_slots_touch_nothing_outside) { drive("requester", inputs); }
TEST(strange_bytes_of_a_network_go_nowhere_else) { drive("placed", inputs); }
TEST(strange_questions_leave_nothing_behind) { drive("service", inputs); }
TEST(strange_answers_of_servers_are_refused) { drive("answers", inputs); }
TEST(strange_contacts_are_refused) { drive("contacts", inputs); }
