// Random machines and transfers for the planner's laws: the same seed gives the same case.
#pragma once

#include <cstdint>

#include "plan/oracle.hpp"

namespace tranship::oracle {

/// Returns three to six memories with channels of every kind, and a transfer of at most a mebibyte:
/// small enough to try every path.
Case small_case(std::uint64_t seed);

/// Returns two nodes with up to five GPUs each, disks and a network: 16 memories at most.
Profile large_machine(std::uint64_t seed);

/// Returns a transfer of up to gigabytes on a large machine, of one to four dimensions.
PlanQuery large_query(std::uint64_t seed, const Profile& profile);

}  // namespace tranship::oracle
