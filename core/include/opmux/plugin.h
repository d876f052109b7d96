/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin ABI: what a plugin module exports and what the host offers it. Plain C11, no other
 * header needed.
 *
 * Rules of the border
 *   - Every struct that may grow begins with its size; a reader never touches a field past that
 * size.
 *   - No exception, no ownership of memory and no C++ type crosses. Strings handed out by a module
 * live as long as the module is mapped; strings handed in live for the duration of the call only.
 *   - A module never unloads itself; unless it says OPMUX_MODULE_UNLOADABLE it stays mapped for the
 * life of the process. It starts no thread before `opmux_plugin_open` has returned.
 *   - Unless a function says otherwise it may be called from any thread at any time.
 */
#ifndef OPMUX_PLUGIN_H_
#define OPMUX_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPMUX_PLUGIN_ABI_MAJOR 2u
#define OPMUX_PLUGIN_ABI_MINOR 1u

/* ---- Tensors: laid out as DLPack 1.x's DLTensor
 * ------------------------------------------------------------------ */

/* Values of OpmuxDevice.type; numbers are DLPack's DLDeviceType. */
enum { OPMUX_DEVICE_CPU = 1, OPMUX_DEVICE_CUDA = 2 };

typedef struct OpmuxDevice {
  int32_t type;
  int32_t index;
} OpmuxDevice;

/* Values of OpmuxDataType.code; numbers are DLPack's DLDataTypeCode. */
enum {
  OPMUX_DTYPE_INT = 0,
  OPMUX_DTYPE_UINT = 1,
  OPMUX_DTYPE_FLOAT = 2,
  OPMUX_DTYPE_BFLOAT = 4,
  OPMUX_DTYPE_BOOL = 6,
  OPMUX_DTYPE_FLOAT8_E4M3FN = 10,
  OPMUX_DTYPE_FLOAT8_E4M3FNUZ = 11,
  OPMUX_DTYPE_FLOAT8_E5M2 = 12
};

typedef struct OpmuxDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} OpmuxDataType;

typedef struct OpmuxTensor {
  void* data; /* may be NULL when the tensor has no elements */
  OpmuxDevice device;
  int32_t rank;
  OpmuxDataType dtype;
  int64_t* shape;   /* rank entries, elements */
  int64_t* strides; /* rank entries, elements; NULL means C-contiguous */
  uint64_t byte_offset;
} OpmuxTensor;

/* A tensor together with the object that owns it. `owner` is an `at::Tensor*` when `owner_kind`
 * says so; a torch plugin then uses that tensor as it is. Everything else ignores it. */
enum { OPMUX_OWNER_NONE = 0, OPMUX_OWNER_AT_TENSOR = 1 };

typedef struct OpmuxOwnedTensor {
  OpmuxTensor tensor; /* must be first */
  void* owner;
  uint64_t owner_kind;
} OpmuxOwnedTensor;

/* ---- Values: 16 bytes, tag and payload, laid out as TVM-FFI's TVMFFIAny for the tags 0 to 8
 * ------------------------ */

enum {
  OPMUX_VALUE_NONE = 0,
  OPMUX_VALUE_INT = 1,
  OPMUX_VALUE_BOOL = 2,
  OPMUX_VALUE_FLOAT = 3,
  OPMUX_VALUE_POINTER = 4,
  OPMUX_VALUE_DTYPE = 5,
  OPMUX_VALUE_DEVICE = 6,
  OPMUX_VALUE_TENSOR =
      7, /* payload.tensor: OpmuxTensor*, or OpmuxOwnedTensor* when the call says so */
  OPMUX_VALUE_STRING = 8, /* payload.string: NUL-terminated UTF-8 */
  /* opmux's own, outside TVM-FFI's range */
  OPMUX_VALUE_INT_LIST = -16,   /* payload.int_list */
  OPMUX_VALUE_FLOAT_LIST = -17, /* payload.float_list */
  OPMUX_VALUE_TENSOR_LIST = -18 /* payload.tensor_list */
};

typedef struct OpmuxIntList {
  const int64_t* data;
  uint64_t size;
} OpmuxIntList;

typedef struct OpmuxFloatList {
  const double* data;
  uint64_t size;
} OpmuxFloatList;

typedef struct OpmuxTensorList {
  const OpmuxTensor* const* data;
  uint64_t size;
} OpmuxTensorList;

typedef struct OpmuxValue {
  int32_t tag;
  uint32_t reserved; /* 0 */
  union {
    int64_t integer; /* INT; BOOL as 0 or 1 */
    double real;
    void* pointer;
    const char* string;
    const OpmuxTensor* tensor;
    OpmuxDataType dtype;
    OpmuxDevice device;
    const OpmuxIntList* int_list;
    const OpmuxFloatList* float_list;
    const OpmuxTensorList* tensor_list;
  } payload;
} OpmuxValue;

/* ---- Status codes
 * --------------------------------------------------------------------------------------------------
 */

typedef int32_t OpmuxStatus;
enum {
  OPMUX_OK = 0,
  OPMUX_UNSUPPORTED =
      1, /* this binding cannot take this call; nothing was read or written: fallback is safe */
  OPMUX_INVALID_ARGUMENT = 2,    /* the call is wrong for every provider; nothing was written */
  OPMUX_ERROR_BEFORE_LAUNCH = 3, /* failed, nothing was written */
  OPMUX_ERROR_AFTER_LAUNCH = 4,  /* failed, outputs may be half written: never retried */
  OPMUX_INCOMPATIBLE = 5         /* handshake or bind refused */
};

/* ---- A call
 * --------------------------------------------------------------------------------------------------------
 */

/* How `stream` is to be read. The legacy default stream must be asked for by name; a CUDA call with
 * OPMUX_STREAM_NONE is an invalid argument. */
enum {
  OPMUX_STREAM_NONE = 0,
  OPMUX_STREAM_HANDLE = 1, /* stream is a cudaStream_t, not NULL */
  OPMUX_STREAM_LEGACY_DEFAULT = 2,
  OPMUX_STREAM_PER_THREAD_DEFAULT = 3
};

enum { OPMUX_CALL_OWNED_TENSORS = 1u /* each OPMUX_VALUE_TENSOR points to an OpmuxOwnedTensor */ };

struct OpmuxHost;

typedef struct OpmuxCall {
  uint32_t struct_size;
  uint32_t flags;
  OpmuxDevice device; /* where the tensors live */
  uint32_t stream_kind;
  uint32_t value_count;
  void* stream;
  const OpmuxValue* values; /* the operator's arguments in schema order, defaults filled in */
  const struct OpmuxHost* host;
} OpmuxCall;

/* ---- What the host offers
 * ------------------------------------------------------------------------------------------ */

typedef void (*OpmuxRangeFunction)(void* context, int64_t begin, int64_t end);

typedef struct OpmuxHost {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t reserved;
  /* Level 0 (trace) to 5 (critical). The text is copied. */
  void (*log)(int32_t level, const char* module, const char* text);
  /* Stores the reason for the non-OK status that the module is about to return from this thread.
   * The text is copied. */
  void (*set_error)(const char* text);
  /* Runs `body` over [0, size) in chunks of at least `grain`, on the host's threads and the
   * caller's; returns when all are done. Chunks may run concurrently. `body` must not throw. Nested
   * calls run inline. */
  void (*parallel_for)(int64_t size, int64_t grain, OpmuxRangeFunction body, void* context);
  /* Scratch memory on the CPU, 64-byte aligned, valid until the call returns on this thread. NULL
   * when out of memory. */
  void* (*workspace)(size_t bytes);
} OpmuxHost;

/* ---- What a module offers
 * ------------------------------------------------------------------------------------------ */

/* What a kernel guarantees beyond its schema, for routes that ask for it. */
enum {
  OPMUX_PROPERTY_DETERMINISTIC = 1u, /* equal inputs give equal bits, on one machine, from call to
                                        call, whatever runs beside it */
  OPMUX_PROPERTY_GRAPH_CAPTURE = 2u, /* a call may be captured into a CUDA graph */
  OPMUX_PROPERTY_IN_PLACE = 4u       /* writes into the caller's tensors and copies no result */
};

/* One operator of the module's own table (contract "module"). */
typedef struct OpmuxOperatorEntry {
  uint32_t struct_size;
  uint32_t properties; /* OPMUX_PROPERTY_..., 0: none is known */
  const char* name;    /* the operator, with `.overload` if any */
  const char* schema;  /* exact schema in PyTorch's schema language */
  int32_t device_type;
  int32_t reserved2;
  OpmuxStatus (*call)(void* binding, const OpmuxCall* call); /* `binding` is `context` */
  void* context;
} OpmuxOperatorEntry;

/* One registration that a provider library made with the Dispatcher, reported to the probe. */
typedef struct OpmuxRegistration {
  uint32_t struct_size;
  uint32_t dispatch_key_count;
  const char* library; /* path of the mapped file that defined the operator */
  const char* schema;  /* as torch prints it, namespace included */
  const char* const*
      dispatch_keys; /* keys with a kernel, e.g. "CUDA", "CPU", "CompositeImplicitAutograd" */
} OpmuxRegistration;

typedef void (*OpmuxRegistrationVisitor)(void* context, const OpmuxRegistration* registration);

/* Where one value of the provider's call comes from. */
enum {
  OPMUX_SOURCE_ARGUMENT = 0,
  OPMUX_SOURCE_CONSTANT = 1,
  OPMUX_SOURCE_LIST_ITEM = 2,   /* item `index`, from 0, of the int[] argument */
  OPMUX_SOURCE_INVERSE_SQRT = 3 /* the float argument; where it is None, 1 / sqrt(size of dimension
                                   `index` of argument `tensor`), negative from the end */
};

typedef struct OpmuxCallSource {
  int32_t kind;
  int32_t argument; /* index into OpmuxCall.values */
  OpmuxValue constant;
  int32_t tensor; /* index into OpmuxCall.values */
  int32_t index;
} OpmuxCallSource;

/* What to do with the provider's n-th result: copied into this argument (unless it already is that
 * tensor, or is None), or dropped when negative. The results of a provider that returns one list of
 * tensors are the list's items; those past the last target are dropped. */
typedef struct OpmuxResultTarget {
  int32_t copy_to_argument;
  uint32_t flags; /* OPMUX_RESULT_... */
} OpmuxResultTarget;

/* The provider has +inf where the operator has -inf: the log-sum-exp of a row without keys. */
enum { OPMUX_RESULT_NEGATIVE_INFINITY = 1u };

enum { OPMUX_CONTRACT_MODULE = 0, OPMUX_CONTRACT_DISPATCHER = 1, OPMUX_CONTRACT_DIRECT_SYMBOL = 2 };

/* The manifest gives no mapping: `sources` and `results` are empty and the module, which knows the
 * provider's functions, maps the operator's arguments itself. */
enum { OPMUX_BIND_MODULE_MAPS = 1u };

typedef struct OpmuxBindRequest {
  uint32_t struct_size;
  int32_t contract;
  int32_t device_type;
  uint32_t source_count;
  uint32_t result_count;
  uint32_t symbol_count;
  const char* operator_name;
  const char* operator_schema;
  const char*
      provider_schema; /* dispatcher: namespace::name.overload(...) as the manifest writes it */
  const char* dispatch_key; /* dispatcher */
  const OpmuxCallSource* sources;
  const OpmuxResultTarget* results;
  /* direct symbol: demangled names and addresses, parallel; with a mapping the first is called */
  const char* const* symbol_names;
  void* const* symbols;
  /* direct symbol with a mapping: the C++ type that the function returns, e.g. "void" or
   * "at::Tensor", which its symbol does not tell */
  const char* returns;
  uint32_t flags; /* OPMUX_BIND_... */
  uint32_t reserved;
} OpmuxBindRequest;

typedef struct OpmuxBound {
  uint32_t struct_size; /* set by the host */
  uint32_t copies;      /* device copies into outputs that one call makes */
  OpmuxStatus (*call)(void* binding, const OpmuxCall* call);
  void* binding; /* lives as long as the module */
} OpmuxBound;

/* Memory and streams of a device, for tools that must make inputs there (optional, NULL where not
 * offered). */
typedef struct OpmuxDeviceServices {
  uint32_t struct_size;
  uint32_t reserved;
  OpmuxStatus (*allocate)(OpmuxDevice device, size_t bytes, void** data);
  void (*release)(OpmuxDevice device, void* data);
  OpmuxStatus (*copy_in)(OpmuxDevice device, void* destination, const void* host_source,
                         size_t bytes);
  OpmuxStatus (*copy_out)(OpmuxDevice device, void* host_destination, const void* source,
                          size_t bytes);
  OpmuxStatus (*new_stream)(OpmuxDevice device,
                            void** stream); /* never the default stream; lives on */
  OpmuxStatus (*synchronize)(OpmuxDevice device, void* stream);
} OpmuxDeviceServices;

/* The module may be unmapped when no route uses it and no call is inside: it starts no thread,
 * registers nothing (handlers, thread-local destructors, torch), launches no device work, and
 * nobody keeps its memory. Only such a module's routes count their calls. */
enum { OPMUX_MODULE_UNLOADABLE = 1u };

typedef struct OpmuxModule {
  uint32_t struct_size; /* set by the module to what it knows */
  uint32_t abi_major;
  uint32_t abi_minor;
  uint32_t operator_count;
  const char* name;                    /* as manifests name it: "vllm", "native" */
  const char* version;                 /* of the module */
  const char* build_identity;          /* what it was built against, "" or e.g. "torch 2.11.0" */
  const OpmuxOperatorEntry* operators; /* the module's own table; may be NULL */
  /* Dispatcher modules only, else NULL. start_listening is called once before the first provider
   * library is mapped. */
  OpmuxStatus (*start_listening)(void);
  OpmuxStatus (*list_registrations)(OpmuxRegistrationVisitor visitor, void* context);
  /* Modules that bind foreign libraries, else NULL. On refusal the reason goes to host->set_error.
   */
  OpmuxStatus (*bind)(const OpmuxBindRequest* request, OpmuxBound* bound);
  const OpmuxDeviceServices* device_services;
  /* since 2.1 */
  uint32_t flags; /* OPMUX_MODULE_... */
  uint32_t reserved;
} OpmuxModule;

#if defined(__GNUC__)
#define OPMUX_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define OPMUX_PLUGIN_EXPORT
#endif

/* The one entry point, exported as "opmux_plugin_open". `host` lives as long as the process. A
 * module that cannot work with host->abi_major returns OPMUX_INCOMPATIBLE after set_error.
 * `*module` stays valid for as long as the module is mapped. */
typedef OpmuxStatus (*OpmuxPluginOpen)(const OpmuxHost* host, const OpmuxModule** module);
#define OPMUX_PLUGIN_ENTRY "opmux_plugin_open"

#ifdef __cplusplus
}
#endif

#endif /* OPMUX_PLUGIN_H_ */
