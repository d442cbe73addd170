#include "fabric/wires/tls_library.hpp"

#include <dlfcn.h>

#include <optional>

namespace tranship::fabric {
namespace {

/// Flag that keeps OpenSSL's tables when the process ends, since its threads may still use them.
constexpr std::uint64_t init_no_atexit = 0x00080000;

/// Finds all functions, or none. Those of libcrypto are found through libssl, which depends on
/// libcrypto, so that both have one version.
std::optional<TlsLibrary> find_functions(void* library) {
  TlsLibrary found{};
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    complete &= function != nullptr;
  };
  find(found.init_ssl, "OPENSSL_init_ssl");
  find(found.method, "TLS_method");
  find(found.context_new, "SSL_CTX_new");
  find(found.context_control, "SSL_CTX_ctrl");
  find(found.context_set_ciphersuites, "SSL_CTX_set_ciphersuites");
  find(found.context_set_num_tickets, "SSL_CTX_set_num_tickets");
  find(found.context_set_client_psk, "SSL_CTX_set_psk_client_callback");
  find(found.context_set_server_psk, "SSL_CTX_set_psk_server_callback");
  find(found.ssl_new, "SSL_new");
  find(found.ssl_free, "SSL_free");
  find(found.ssl_set_bio, "SSL_set_bio");
  find(found.ssl_set_verify, "SSL_set_verify");
  find(found.ssl_set_accept_state, "SSL_set_accept_state");
  find(found.ssl_set_connect_state, "SSL_set_connect_state");
  find(found.ssl_do_handshake, "SSL_do_handshake");
  find(found.ssl_session_reused, "SSL_session_reused");
  find(found.ssl_version, "SSL_version");
  find(found.ssl_read, "SSL_read");
  find(found.ssl_write, "SSL_write");
  find(found.ssl_get_error, "SSL_get_error");
  find(found.ssl_key_update, "SSL_key_update");
  find(found.ssl_set_ex_data, "SSL_set_ex_data");
  find(found.ssl_get_ex_data, "SSL_get_ex_data");
  find(found.bio_get_new_index, "BIO_get_new_index");
  find(found.bio_meth_new, "BIO_meth_new");
  find(found.bio_meth_set_write, "BIO_meth_set_write");
  find(found.bio_meth_set_read, "BIO_meth_set_read");
  find(found.bio_meth_set_ctrl, "BIO_meth_set_ctrl");
  find(found.bio_new, "BIO_new");
  find(found.bio_set_data, "BIO_set_data");
  find(found.bio_get_data, "BIO_get_data");
  find(found.bio_set_init, "BIO_set_init");
  find(found.bio_set_flags, "BIO_set_flags");
  find(found.bio_clear_flags, "BIO_clear_flags");
  find(found.err_clear_error, "ERR_clear_error");
  find(found.err_get_error, "ERR_get_error");
  find(found.err_reason_error_string, "ERR_reason_error_string");
  if (!complete) return std::nullopt;
  return found;
}

std::optional<TlsLibrary> load() {
  for (const char* name : {"libssl.so.3", "libssl.so.1.1", "libssl.so"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    const auto found = find_functions(library);
    if (found && found->init_ssl(init_no_atexit, nullptr) == 1) return found;
    dlclose(library);
  }
  return std::nullopt;
}

}  // namespace

Result<const TlsLibrary*> tls_library() {
  static const std::optional<TlsLibrary> library = load();
  if (library) return &*library;
  return Error{ErrorCode::unsupported,
               "tls=1 needs OpenSSL's libssl 1.1.1 or later, and this machine has none: install "
               "openssl, or set tls=0 on both sides where the network is trusted"};
}

}  // namespace tranship::fabric
