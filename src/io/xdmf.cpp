#include "io/xdmf.hpp"

#include <charconv>
#include <numeric>

namespace fluxformer::io {

namespace {

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;  // shortest that reads back the same
  return {text, end};
}

std::string numbers(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : " ") + number(value);
  return text;
}

std::string sizes(const std::vector<Index>& values) {
  std::string text;
  for (const Index value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

/// The numbers 0, 1, ..., size - 1.
std::vector<double> counted(Index size) {
  std::vector<double> values(size);
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

std::string values_item(const std::vector<double>& values) {
  return "<DataItem Dimensions=\"" + std::to_string(values.size()) +
         "\" NumberType=\"Float\" Precision=\"8\" Format=\"XML\">" + numbers(values) + "</DataItem>";
}

// A hyperslab has three lines: start, stride, count, each over all dimensions of the dataset.
std::string scalar_item(const XdmfScalar& scalar, Index time, const std::string& file,
                        const std::string& node_dimensions) {
  const std::string indent = "          ";
  return indent + "<Attribute Name=\"" + escaped(scalar.name) +
         "\" AttributeType=\"Scalar\" Center=\"Node\">\n" + indent +
         "  <DataItem ItemType=\"HyperSlab\" Type=\"HyperSlab\" Dimensions=\"" + node_dimensions + "\">\n" +
         indent + "    <DataItem Dimensions=\"3 5\" NumberType=\"Int\" Format=\"XML\">\n" + indent +
         "      " + sizes({time, 0, 0, scalar.sample, scalar.channel}) + "\n" + indent + "      1 1 1 1 1\n" +
         indent + "      " + sizes({1, scalar.shape[1], scalar.shape[2], 1, 1}) + "\n" + indent +
         "    </DataItem>\n" + indent + "    <DataItem Dimensions=\"" + sizes(scalar.shape) +
         "\" NumberType=\"Float\" Precision=\"8\" Format=\"HDF\">" + escaped(file) + ":" +
         escaped(scalar.dataset) + "</DataItem>\n" + indent + "  </DataItem>\n" + indent + "</Attribute>\n";
}

}  // namespace

std::string xdmf_document(const XdmfScene& scene) {
  const std::string nodes = sizes({std::ssize(scene.depths), scene.tokens_y, scene.tokens_x});
  std::string text =
      "<?xml version=\"1.0\" ?>\n<!DOCTYPE Xdmf SYSTEM \"Xdmf.dtd\" []>\n<Xdmf Version=\"2.0\">\n  <Domain>\n"
      "    <Grid Name=\"depth x tokens\" GridType=\"Collection\" CollectionType=\"Temporal\">\n";
  for (Index time = 0; time < std::ssize(scene.times); ++time) {
    text += "      <Grid Name=\"t" + std::to_string(time) +
            "\" GridType=\"Uniform\">\n        <Time Value=\"" + number(scene.times[time]) +
            "\"/>\n        <Topology TopologyType=\"3DRectMesh\" Dimensions=\"" + nodes +
            "\"/>\n        <Geometry GeometryType=\"VXVYVZ\">\n          " +
            values_item(counted(scene.tokens_x)) + "\n          " + values_item(counted(scene.tokens_y)) +
            "\n          " + values_item(scene.depths) + "\n        </Geometry>\n";
    for (const XdmfScalar& scalar : scene.scalars)
      if (time < scalar.shape[0]) text += scalar_item(scalar, time, scene.file, nodes);
    text += "      </Grid>\n";
  }
  return text + "    </Grid>\n  </Domain>\n</Xdmf>\n";
}

}  // namespace fluxformer::io
