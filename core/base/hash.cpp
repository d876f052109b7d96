// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <vector>

#include "core/base/descriptor.hpp"

namespace opmux {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

// SHA-256 over bytes that arrive in pieces. OpenSSL fails here only when memory runs out.
class Digest {
 public:
  Digest() : context_(EVP_MD_CTX_new()) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
      throw std::bad_alloc{};
  }

  void add(const void* bytes, std::size_t size) {
    if (EVP_DigestUpdate(context_.get(), bytes, size) != 1) throw std::bad_alloc{};
  }

  std::string hexadecimal() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    if (EVP_DigestFinal_ex(context_.get(), digest.data(), &size) != 1) throw std::bad_alloc{};
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(std::size_t{2} * size);
    for (unsigned int i = 0; i < size; ++i) {
      text += kDigits[digest[i] >> 4];
      text += kDigits[digest[i] & 15];
    }
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, ContextDeleter> context_;
};

// Invalid for anything but a regular file, and never waits for a pipe.
Descriptor open_regular(const std::filesystem::path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
  struct stat info {};
  if (file.valid() && (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))) file.reset();
  return file;
}

std::optional<std::string> digest_of(const Descriptor& file) {
  Digest digest;
  std::vector<char> block(std::size_t{256} * 1024);
  for (;;) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return digest.hexadecimal();
    digest.add(block.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::string sha256(std::string_view bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hexadecimal();
}

std::optional<std::string> sha256_file(const std::filesystem::path& path) {
  const Descriptor file = open_regular(path);
  return file.valid() ? digest_of(file) : std::nullopt;
}

std::optional<HashedFile> hash_file(const std::filesystem::path& path) {
  const Descriptor file = open_regular(path);
  HashedFile hashed;
  if (!file.valid() || !file_identity(file.get(), hashed.identity)) return std::nullopt;
  std::optional<std::string> digest = digest_of(file);
  FileIdentity after;
  if (!digest || !file_identity(file.get(), after) || !(after == hashed.identity))
    return std::nullopt;
  hashed.sha256 = *std::move(digest);
  return hashed;
}

}  // namespace opmux
