#include "io/file_names.hpp"

namespace fluxformer::io {
namespace {

std::string with_suffix(const std::string& output, const std::string& suffix) {
  const std::string usual = ".h5";
  const bool has = output.size() > usual.size() && output.ends_with(usual);
  return (has ? output.substr(0, output.size() - usual.size()) : output) + suffix;
}

}  // namespace

std::string checkpoint_path(const std::string& output) {
  return with_suffix(output, ".checkpoint.h5");
}
std::string previous_checkpoint_path(const std::string& output) {
  return with_suffix(output, ".checkpoint.previous.h5");
}
std::string part_path(const std::string& path) {
  return path + ".part";
}
std::string side_car_path(const std::string& output) {
  return with_suffix(output, ".xdmf");
}
std::string history_path(const std::string& output) {
  return with_suffix(output, ".history.h5");
}
std::string weights_path(const std::string& output, const std::string& what) {
  return with_suffix(output, "." + what + ".h5");
}

std::string incomplete_path(const std::string& output, const std::string& status) {
  return with_suffix(output, "." + status + ".h5");
}

}  // namespace fluxformer::io
