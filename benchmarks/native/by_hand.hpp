// Loops that pack and unpack by hand, as a program without types does.
#pragma once

#include <nanobind/nanobind.h>

namespace tranship::bench {

void bind_by_hand(nanobind::module_& module);

}  // namespace tranship::bench
