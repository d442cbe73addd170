/* Arrays of other processes from C: an engine exports instances, and looks up those of its peers,
 * which are ends of copies as any other instance. A copy can send a notice to the process that
 * exports its array. */
#ifndef TRANSHIP_PEERS_H
#define TRANSHIP_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "error.h"
#include "instance.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lets processes that connect read the instance by a name, and write it if it is writable. It stays
 * alive until tranship_withdraw() or the engine's close; so must memory that the caller gave.
 * Errors: TRANSHIP_INVALID_ARGUMENT if the name is taken, or the instance is another process's. */
TRANSHIP_API tranship_code tranship_export(tranship_engine* engine, const char* name,
                                           const tranship_instance* instance);

/* Options of an export. Set `size`; other members that are zero mean the defaults. */
typedef struct tranship_export_options {
  size_t size;  /* sizeof(tranship_export_options) */
  int notices;  /* 1: others may send notices of their copies to and from the instance */
  int reserved; /* 0 */
} tranship_export_options;

/* Does what tranship_export() does, with options. options: NULL for the defaults.
 * Errors: as tranship_export(). */
TRANSHIP_API tranship_code tranship_export_with(tranship_engine* engine, const char* name,
                                                const tranship_instance* instance,
                                                const tranship_export_options* options);

/* Ends an export. No other process touches the memory after it returned TRANSHIP_OK.
 * Errors: TRANSHIP_NOT_FOUND; TRANSHIP_TIMEOUT if a peer's copy takes longer than the setting
 * peer_timeout_ms: nothing new begins, but the memory must stay until that copy is over. */
TRANSHIP_API tranship_code tranship_withdraw(tranship_engine* engine, const char* name);

/* A connection to another engine. */
typedef struct tranship_peer tranship_peer;

/* Connects to another engine. contact: the file that it writes, or host:port. Free the peer.
 * Errors: TRANSHIP_NOT_FOUND for a contact file that does not exist; TRANSHIP_PEER_LOST if nothing
 * listens there; TRANSHIP_TIMEOUT. */
TRANSHIP_API tranship_code tranship_connect(tranship_engine* engine, const char* contact,
                                            double timeout, tranship_peer** peer);

/* Writes an instance of the array that the peer exports by this name, one end of a copy. Free it.
 * Errors: TRANSHIP_NOT_FOUND; TRANSHIP_PEER_LOST; TRANSHIP_TIMEOUT. */
TRANSHIP_API tranship_code tranship_peer_lookup(tranship_peer* peer, const char* name,
                                                double timeout, tranship_instance** instance);

/* Names of exported arrays at the time of tranship_peer_names(). */
typedef struct tranship_names tranship_names;

/* Asks for the names of the arrays that the peer exports now. Free them. */
TRANSHIP_API tranship_code tranship_peer_names(tranship_peer* peer, double timeout,
                                               tranship_names** names);

/* Returns how many names there are; 0 for NULL. */
TRANSHIP_API int64_t tranship_names_size(const tranship_names* names);

/* Returns name `index`, from 0, valid until the names are freed; NULL if there is none. */
TRANSHIP_API const char* tranship_names_entry(const tranship_names* names, int64_t index);

/* Frees the names. NULL is ignored. */
TRANSHIP_API void tranship_names_free(tranship_names* names);

/* Ends the connection and frees the peer. Copies to and from its arrays fail. NULL is ignored. */
TRANSHIP_API void tranship_peer_free(tranship_peer* peer);

/* -- Notices ------------------------------------------------------------------------------- */

/* A copy of another process to or from an instance that this process exports. All its bytes were
 * written, or read, before the notice arrived. */
typedef struct tranship_notice {
  const char* name;   /* what the other process gave as `notify` */
  const char* array;  /* name of the export; of several that one call copied, the first */
  int written;        /* 1: the other process has written the instance; 0: it has read it */
  const char* sender; /* the other process: its number, and its machine */
} tranship_notice;

/* Notices that one call returned, in the order of their arrival. */
typedef struct tranship_notices tranship_notices;

/* Takes the notices that have arrived from all processes. Each is returned once. Waits up to
 * `timeout` seconds for the first, if there is none; 0: not at all. If none comes by then, the list
 * is empty. Free the list, an empty one as well.
 * Errors: TRANSHIP_INVALID_ARGUMENT for an engine that accepts no connections; TRANSHIP_CLOSED if
 * the engine is closed, also while the call waits. */
TRANSHIP_API tranship_code tranship_engine_notices(tranship_engine* engine, double timeout,
                                                   tranship_notices** notices);

/* Does the same for the notices of the peer's process alone, which has connected to this one, too.
 * Errors: as tranship_engine_notices(); TRANSHIP_PEER_LOST and TRANSHIP_CLOSED if the peer's
 * process exited or has closed its engine, and all that it has sent were returned. */
TRANSHIP_API tranship_code tranship_peer_notices(tranship_peer* peer, double timeout,
                                                 tranship_notices** notices);

/* Returns how many notices the list has; 0 for NULL. */
TRANSHIP_API int64_t tranship_notices_size(const tranship_notices* notices);

/* Writes notice `index`, from 0. Its texts are valid until the list is freed.
 * Errors: TRANSHIP_OUT_OF_RANGE if there is none of that index. */
TRANSHIP_API tranship_code tranship_notices_entry(const tranship_notices* notices, int64_t index,
                                                  tranship_notice* notice);

/* Frees a list of notices. NULL is ignored. */
TRANSHIP_API void tranship_notices_free(tranship_notices* notices);

#ifdef __cplusplus
}
#endif

#endif
