// Tranship from C++: the engine, which copies arrays between memories, and the client of the
// staging service. Header-only, over the C API of libtranship.so: no C++ type crosses the library's
// edge (docs/decisions/0020-a-cpp-face-over-c.md). Failures are exceptions derived from
// tranship::Error. docs/guides/cpp.md shows programs.
#pragma once

#include "array.hpp"
#include "attributes.hpp"
#include "copy_options.hpp"
#include "engine.hpp"
#include "engine_handle.hpp"
#include "engine_options.hpp"
#include "error.hpp"
#include "event.hpp"
#include "file.hpp"
#include "layout.hpp"
#include "notice.hpp"
#include "packer.hpp"
#include "peer.hpp"
#include "plan.hpp"
#include "prepared_copy.hpp"
#include "request.hpp"
#include "staging.hpp"
#include "steps.hpp"
#include "typed_copies.hpp"
#include "types.hpp"
#include "variable.hpp"
