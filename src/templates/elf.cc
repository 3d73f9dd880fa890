#include "elf.h"

#include <elf.h>
#include <unistd.h>

#include <bit>
#include <cstring>

namespace pons::templates {
namespace {

constexpr std::size_t kHeadersMax = 128;
constexpr std::size_t kEntriesMax = 4096;
constexpr std::size_t kTextBytesMax = 4096;

Error senseless() {
  return make_error(ErrorCode::kInvalid, "read program", "its ELF headers make no sense");
}

// As many as there are; fewer at the end of the file.
std::size_t read_at(int fd, void* place, std::size_t size, std::uint64_t offset) {
  const ssize_t got = pread(fd, place, size, static_cast<off_t>(offset));
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

Result<std::string> text_at(int fd, std::uint64_t offset) {
  char text[kTextBytesMax];
  const std::size_t got = read_at(fd, text, sizeof text, offset);
  const std::size_t size = strnlen(text, got);
  if (size == got) return senseless();
  return std::string(text, size);
}

Result<std::vector<Elf64_Phdr>> program_headers(int fd, const Elf64_Ehdr& head) {
  if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > kHeadersMax) return senseless();
  std::vector<Elf64_Phdr> headers(head.e_phnum);
  const std::size_t size = headers.size() * sizeof(Elf64_Phdr);
  if (read_at(fd, headers.data(), size, head.e_phoff) != size) return senseless();
  return headers;
}

// Where in the file lies what is at this address in memory.
Result<std::uint64_t> offset_of(std::uint64_t address, const std::vector<Elf64_Phdr>& headers) {
  for (const Elf64_Phdr& header : headers)
    if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
        address - header.p_vaddr < header.p_filesz)
      return header.p_offset + (address - header.p_vaddr);
  return senseless();
}

Result<std::vector<std::string>> needed_libraries(int fd, const Elf64_Phdr& dynamic,
                                                  const std::vector<Elf64_Phdr>& headers) {
  if (dynamic.p_filesz > kEntriesMax * sizeof(Elf64_Dyn)) return senseless();
  std::vector<Elf64_Dyn> entries(dynamic.p_filesz / sizeof(Elf64_Dyn));
  const std::size_t size = entries.size() * sizeof(Elf64_Dyn);
  if (read_at(fd, entries.data(), size, dynamic.p_offset) != size) return senseless();
  std::vector<std::uint64_t> names;
  std::uint64_t table = 0;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) names.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRTAB) table = entry.d_un.d_ptr;
  }
  std::vector<std::string> libraries;
  for (const std::uint64_t name : names) {
    const std::uint64_t offset = TRY(offset_of(table + name, headers));
    libraries.push_back(TRY(text_at(fd, offset)));
  }
  return libraries;
}

}  // namespace

Result<std::optional<ElfNeeds>> read_elf_needs(int fd) {
  constexpr unsigned char kOurs =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  Elf64_Ehdr head{};
  if (read_at(fd, &head, sizeof head, 0) != sizeof head ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_ident[EI_DATA] != kOurs)
    return std::nullopt;
  const auto headers = TRY(program_headers(fd, head));
  ElfNeeds needs{.machine = head.e_machine, .interpreter = {}, .libraries = {}};
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_INTERP) needs.interpreter = TRY(text_at(fd, header.p_offset));
    if (header.p_type == PT_DYNAMIC) needs.libraries = TRY(needed_libraries(fd, header, headers));
  }
  return needs;
}

}  // namespace pons::templates
