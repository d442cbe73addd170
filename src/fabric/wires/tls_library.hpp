// The functions of OpenSSL's libssl that encrypted connections use, loaded when the first is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"

namespace tranship::fabric {

/// Functions of OpenSSL, as 1.1.1 and 3 declare them. All objects of OpenSSL are void pointers
/// here, so that none of its headers is needed.
struct TlsLibrary {
  using WriteBytes = int (*)(void* bio, const char* data, int bytes);
  using ReadBytes = int (*)(void* bio, char* data, int bytes);
  using Control = long (*)(void* bio, int command, long number, void* pointer);
  using ClientPsk = unsigned (*)(void* ssl, const char* hint, char* identity,
                                 unsigned identity_bytes_max, unsigned char* key,
                                 unsigned key_bytes_max);
  using ServerPsk = unsigned (*)(void* ssl, const char* identity, unsigned char* key,
                                 unsigned key_bytes_max);

  int (*init_ssl)(std::uint64_t options, const void* settings);
  const void* (*method)();
  void* (*context_new)(const void* method);
  long (*context_control)(void* context, int command, long number, void* pointer);
  int (*context_set_ciphersuites)(void* context, const char* names);
  int (*context_set_num_tickets)(void* context, std::size_t tickets);
  void (*context_set_client_psk)(void* context, ClientPsk callback);
  void (*context_set_server_psk)(void* context, ServerPsk callback);

  void* (*ssl_new)(void* context);
  void (*ssl_free)(void* ssl);
  void (*ssl_set_bio)(void* ssl, void* reads, void* writes);
  void (*ssl_set_verify)(void* ssl, int mode, void* callback);
  void (*ssl_set_accept_state)(void* ssl);
  void (*ssl_set_connect_state)(void* ssl);
  int (*ssl_do_handshake)(void* ssl);
  int (*ssl_session_reused)(const void* ssl);
  int (*ssl_version)(const void* ssl);
  int (*ssl_read)(void* ssl, void* data, int bytes);
  int (*ssl_write)(void* ssl, const void* data, int bytes);
  int (*ssl_get_error)(const void* ssl, int code);
  int (*ssl_key_update)(void* ssl, int type);
  int (*ssl_set_ex_data)(void* ssl, int index, void* data);
  void* (*ssl_get_ex_data)(const void* ssl, int index);

  int (*bio_get_new_index)();
  void* (*bio_meth_new)(int type, const char* name);
  int (*bio_meth_set_write)(void* method, WriteBytes write);
  int (*bio_meth_set_read)(void* method, ReadBytes read);
  int (*bio_meth_set_ctrl)(void* method, Control control);
  void* (*bio_new)(const void* method);
  void (*bio_set_data)(void* bio, void* data);
  void* (*bio_get_data)(void* bio);
  void (*bio_set_init)(void* bio, int init);
  void (*bio_set_flags)(void* bio, int flags);
  void (*bio_clear_flags)(void* bio, int flags);

  void (*err_clear_error)();
  unsigned long (*err_get_error)();
  const char* (*err_reason_error_string)(unsigned long error);
};

/// Returns the functions of libssl, which the first call loads.
/// @error unsupported if the machine has no libssl with TLS 1.3
Result<const TlsLibrary*> tls_library();

}  // namespace tranship::fabric
