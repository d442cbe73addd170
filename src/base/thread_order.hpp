// Declares to ThreadSanitizer orders between threads that it cannot observe. In other builds these
// functions do nothing.
#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tranship {

/// Declares that what this thread has done happens before any later order_after() with the same
/// key. It is needed for memory that one process maps at two addresses, and for messages of
/// libraries that are not instrumented.
inline void order_before([[maybe_unused]] void* key) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(key);
#endif
}

/// Declares that what this thread does from now on happens after earlier order_before() calls with
/// the same key.
inline void order_after([[maybe_unused]] void* key) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(key);
#endif
}

}  // namespace tranship
