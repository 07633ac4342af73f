#include "tests/fuzz/reader.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <typeinfo>

#include "base/error.hpp"

namespace fluxformer::fuzz {
namespace {

std::string folder_in_use;

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type.name();
}

}  // namespace

std::vector<Reader> readers_called(const std::string& name) {
  std::vector<Reader> found;
  for (const auto& group : {deck_readers(), data_readers(), archive_readers(), program_readers()})
    for (const Reader& reader : group)
      if (name == "all" || reader.name == name) found.push_back(reader);
  for (const Reader& reader : misbehaving_readers())
    if (reader.name == name) found.push_back(reader);
  return found;
}

Outcome judge(const Reader& reader, std::span<const std::uint8_t> bytes) {
  try {
    reader.read(bytes);
    return {};
  } catch (const Error& e) {
    if (e.code() == ExitCode::bad_input) return {Outcome::Kind::refused, e.what()};
    return {Outcome::Kind::finding,
            "exit code " + std::to_string(static_cast<int>(e.code())) + ": " + e.what()};
  } catch (const std::exception& e) {
    return {Outcome::Kind::finding, type_name(typeid(e)) + ": " + e.what()};
  } catch (...) {
    return {Outcome::Kind::finding, "an exception of unknown type"};
  }
}

const std::string& scratch_folder() {
  return folder_in_use;
}

void use_scratch_folder(const std::string& folder) {
  std::filesystem::create_directories(folder);
  folder_in_use = folder;
}

std::string in_file(std::span<const std::uint8_t> bytes, const std::string& name) {
  const std::string path = folder_in_use + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::logic_error(path + ": the harness cannot write it");
  return path;
}

}  // namespace fluxformer::fuzz
