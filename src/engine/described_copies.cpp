#include "engine/described_copies.hpp"

#include <algorithm>
#include <utility>

#include "engine/copy_all.hpp"

namespace tranship {
namespace {

/// Most numbers of a short description: some forty pairs.
constexpr std::size_t short_most = 512;
/// Most numbers of one that is remembered: some thousands of pairs.
constexpr std::size_t numbers_most = std::size_t{32} << 10;
/// Largest table, in bytes, that a remembered work may keep of a list before it.
constexpr std::int64_t kept_table_bytes_most = 128 << 10;

/// Longest copy, in bytes, whose work is planned ahead: of longer ones, the GPU takes longer.
constexpr std::int64_t prepared_bytes_most = std::int64_t{1} << 20;

std::uint64_t hash_of(std::span<const std::int64_t> numbers) {
  std::uint64_t hash = numbers.size();
  for (const std::int64_t number : numbers) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

CopyPair without_owners(const CopyPair& pair) {
  CopyPair ends = pair;
  for (Array* array : {&ends.source, &ends.target}) array->owner = nullptr;
  return ends;
}

}  // namespace

DescribedCopies::Place& DescribedCopies::place_of(std::span<const std::int64_t> description,
                                                  std::uint64_t hash) {
  return description.size() <= short_most ? short_[(hash >> 32) % short_.size()]
                                          : long_[(hash >> 32) % long_.size()];
}

bool DescribedCopies::seen_before(std::span<const std::int64_t> description) {
  if (description.size() > numbers_most) return false;
  const std::uint64_t hash = hash_of(description);
  std::lock_guard lock(mutex_);
  return std::exchange(place_of(description, hash).seen, hash) == hash;
}

Result<Event> DescribedCopies::copy(std::span<const std::int64_t> description,
                                    std::span<const CopyPair> pairs, const CopyOptions& options) {
  if (!seen_before(description)) {
    return pairs.size() == 1 ? runner_.copy(pairs[0].source, pairs[0].target, options)
                             : copy_all(runner_, pairs, options);
  }
  if (pairs.size() == 1) return copy_pair(description, pairs[0], options);
  auto lists = std::make_shared<IndexedCopy>();
  auto plan = join(runner_, pairs, options, *lists);
  if (!plan) return plan.error();
  if (!*plan) return copy_each(runner_, pairs, options);
  auto event = start_joined(runner_, *plan, pairs, options, {.kept = lists});
  if (event) {
    remember({.description = {description.begin(), description.end()},
              .plan = *plan,
              .ends = without_owners(pairs[0]),
              .lists = std::move(lists)},
             options);
  }
  return event;
}

Result<Event> DescribedCopies::copy_pair(std::span<const std::int64_t> description,
                                         const CopyPair& pair, const CopyOptions& options) {
  auto event = runner_.copy(pair.source, pair.target, options);
  if (event && runner_.one_gpu_hop(*event->plan())) {
    remember({.description = {description.begin(), description.end()},
              .plan = event->plan(),
              .ends = without_owners(pair)},
             options);
  }
  return event;
}

void DescribedCopies::remember(Known known, const CopyOptions& options) {
  if (known.plan->bytes == 0) return;
  if (known.lists || known.plan->bytes <= prepared_bytes_most) {
    auto begun = runner_.begin_prepare(*known.plan, known.ends, options, known.cargo(),
                                       kept_table_bytes_most);
    if (!begun) return;  // captured, or refused: the copy itself said why
    known.work = std::move(begun->work);
    known.ready = std::move(begun->ready);
  }
  auto made = std::make_shared<const Known>(std::move(known));
  const std::uint64_t hash = hash_of(made->description);
  std::lock_guard lock(mutex_);
  place_of(made->description, hash).known.swap(made);  // what was there ends without the lock
}

std::optional<Result<Event>> DescribedCopies::start(std::span<const std::int64_t> description,
                                                    const CopyOptions& options,
                                                    std::shared_ptr<void> held) {
  if (description.size() > numbers_most) return {};
  const std::uint64_t hash = hash_of(description);
  const std::shared_ptr<const Known> known = [&] {
    std::lock_guard lock(mutex_);
    return place_of(description, hash).known;
  }();
  if (!known || !std::ranges::equal(known->description, description)) return {};
  Cargo cargo = known->cargo();
  if (known->work && known->ready->done() && known->ready->status()) cargo.prepared = known->work;
  auto event =
      runner_.start_on_gpu(known->plan, known->ends.source, known->ends.target, options, {}, cargo);
  if (event && event->flight()) event->flight()->hold({std::move(held)});
  return event;
}

}  // namespace tranship
