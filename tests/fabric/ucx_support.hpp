// UCX for tests, and a carrier that counts its copies.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/messages/runs.hpp"
#include "fabric/wires/ucx/ucx_carrier.hpp"
#include "support/test.hpp"

namespace tranship::test {

using namespace fabric;

inline UcxCarrier::Options ucx_options() {
  UcxCarrier::Options options;
  options.library = TRANSHIP_TEST_UCX;
  return options;
}

/// Opens UCX. Skips the case where UCX is not installed; a UCX that does not start is a failure.
inline std::shared_ptr<UcxCarrier> ucx_or_skip() {
  auto opened = UcxCarrier::open(ucx_options());
  if (opened) return *opened;
  const std::string why = opened.error().text();
  if (why.find("UCX was not found") != std::string::npos) throw CaseSkipped(why);
  record_failure(__FILE__, __LINE__, why);
  throw CaseEnded(why);
}

struct CarrierCounter {
  std::atomic<int> reads{0};
  std::atomic<int> writes{0};
  std::atomic<int> failures{0};
  std::atomic<int> declined{0};    ///< Copies with more runs than runs_max.
  std::atomic<int> registered{0};  ///< Registrations that exist now.
};

/// A carrier that passes copies to another carrier, and counts them.
class CountedCarrier final : public BulkCarrier {
 public:
  CountedCarrier(std::shared_ptr<BulkCarrier> inner, std::shared_ptr<CarrierCounter> counter)
      : inner_(std::move(inner)), counter_(std::move(counter)) {}

  const std::string& kind() const override { return inner_->kind(); }
  bool serves(bool local) const override { return inner_->serves(local); }
  const std::vector<std::byte>& address() const override { return inner_->address(); }
  Result<std::unique_ptr<Registration>> register_memory(std::byte* address,
                                                        std::int64_t bytes) override {
    auto made = inner_->register_memory(address, bytes);
    if (!made) return made.error();
    return std::unique_ptr<Registration>(
        std::make_unique<CountedRegistration>(std::move(*made), counter_));
  }
  Result<std::shared_ptr<Peer>> connect(std::span<const std::byte> address) override {
    auto made = inner_->connect(address);
    if (!made) return made.error();
    return std::shared_ptr<Peer>(std::make_shared<CountedPeer>(std::move(*made), counter_));
  }
  bool progress() override { return inner_->progress(); }

 private:
  class CountedRegistration final : public Registration {
   public:
    CountedRegistration(std::unique_ptr<Registration> inner,
                        std::shared_ptr<CarrierCounter> counter)
        : inner_(std::move(inner)), counter_(std::move(counter)) {
      ++counter_->registered;
    }
    ~CountedRegistration() override {
      inner_.reset();
      --counter_->registered;
    }
    CountedRegistration(const CountedRegistration&) = delete;
    CountedRegistration& operator=(const CountedRegistration&) = delete;
    const std::vector<std::byte>& key() const override { return inner_->key(); }

   private:
    std::unique_ptr<Registration> inner_;
    std::shared_ptr<CarrierCounter> counter_;
  };

  /// An operation takes some 3 us.
  static constexpr std::int64_t runs_max = 200'000;

  class CountedMemory final : public Memory {
   public:
    CountedMemory(std::shared_ptr<Memory> inner, std::shared_ptr<CarrierCounter> counter)
        : inner_(std::move(inner)), counter_(std::move(counter)) {}
    Status move(const Movement& movement, const std::function<bool()>& stop) override {
      if (runs_of(movement.nests) + runs_of(movement.lists) > runs_max) {
        ++counter_->declined;
        return Error{ErrorCode::io, "too many runs"};
      }
      Status status = inner_->move(movement, stop);
      if (!status) ++counter_->failures;
      ++(movement.operation == Operation::write ? counter_->writes : counter_->reads);
      return status;
    }

   private:
    std::shared_ptr<Memory> inner_;
    std::shared_ptr<CarrierCounter> counter_;
  };

  class CountedPeer final : public Peer {
   public:
    CountedPeer(std::shared_ptr<Peer> inner, std::shared_ptr<CarrierCounter> counter)
        : inner_(std::move(inner)), counter_(std::move(counter)) {}
    Result<std::shared_ptr<Memory>> open(std::span<const std::byte> key,
                                         std::uint64_t address) override {
      auto made = inner_->open(key, address);
      if (!made) return made.error();
      return std::shared_ptr<Memory>(std::make_shared<CountedMemory>(std::move(*made), counter_));
    }

   private:
    std::shared_ptr<Peer> inner_;
    std::shared_ptr<CarrierCounter> counter_;
  };

  std::shared_ptr<BulkCarrier> inner_;
  std::shared_ptr<CarrierCounter> counter_;
};

}  // namespace tranship::test
