#include "data/type_numbers.hpp"

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace tranship {
namespace {

/// Most types that get numbers: programs use tens, but a raw type has any size.
constexpr std::size_t types_most = 4096;

struct TypeNumbers {
  std::mutex mutex;
  std::map<std::pair<std::string, std::int64_t>, std::int64_t, std::less<>> by_name;
};

}  // namespace

std::int64_t type_number_of(std::string_view name, std::int64_t bytes) {
  static TypeNumbers& numbers =
      *new TypeNumbers;  // never destroyed: threads may outlive the program's end
  std::lock_guard lock(numbers.mutex);
  const std::pair key(std::string(name), bytes);
  if (const auto found = numbers.by_name.find(key); found != numbers.by_name.end()) {
    return found->second;
  }
  if (numbers.by_name.size() >= types_most) return 0;
  const auto next = static_cast<std::int64_t>(numbers.by_name.size()) + 1;
  numbers.by_name.emplace(key, next);
  return next;
}

}  // namespace tranship
