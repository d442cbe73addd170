// Orders between threads that ThreadSanitizer cannot see, told to it; nothing in other builds.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tranship {

/// What this thread has done is seen by every thread that calls order_after() with this key later.
/// For memory that one process maps at two addresses, and for messages of libraries that are not
/// instrumented.
inline void order_before([[maybe_unused]] void* key) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(key);
#endif
}

inline void order_after([[maybe_unused]] void* key) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(key);
#endif
}

}  // namespace tranship
