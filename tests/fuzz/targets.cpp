#include "fuzz/targets.hpp"

#include <array>

namespace tranship::fuzz {

std::span<const Target> targets() {
  // CMakeLists.txt reads the names here: one line for each target.
  static constexpr std::array all{
      Target{"frames", run_frames},        //
      Target{"messages", run_messages},    //
      Target{"socket", run_socket},        //
      Target{"link", run_link},            //
      Target{"commands", run_commands},    //
      Target{"slots", run_slots},          //
      Target{"placed", run_placed},        //
      Target{"requester", run_requester},  //
      Target{"service", run_service},      //
      Target{"answers", run_answers},      //
      Target{"contacts", run_contacts},
  };
  return all;
}

}  // namespace tranship::fuzz
