"""Reads the sample archive of tests/unit/io/strangers_test.cpp with generic tools that know nothing of Fluxformer: xarray (netCDF-4)
and an XDMF reader (here: the XML and the hyperslabs it names; VTK's own reader too where it is installed).

    read_as_stranger.py sample.h5      exit code 0: as expected, 77: a module is missing
"""

import os
import sys
import xml.etree.ElementTree as xml

try:
    import h5py
    import numpy as np
    import xarray
    import h5netcdf  # noqa: F401 (the engine)
except ImportError as failure:
    print(f"{failure.name} is missing: apt-get install python3-{failure.name}")
    sys.exit(77)

TIMES, DEPTHS, TOKENS_X, TOKENS_Y, SAMPLES, CHANNELS = 3, 4, 5, 3, 2, 4
SHAPE = (TIMES, DEPTHS, TOKENS_X * TOKENS_Y, SAMPLES, CHANNELS)
SAMPLE, SHOWN = 1, (0, 3)

path = sys.argv[1]
expected = np.arange(np.prod(SHAPE), dtype=float).reshape(SHAPE) / 7

# netCDF-4: every group opens, every dimension is named, coordinates are at the root.
field = xarray.open_dataset(path, engine="h5netcdf", group="field")
assert field.u.dims == ("time", "depth", "token", "sample", "channel"), field.u.dims
assert np.array_equal(field.u.values, expected)
assert field.u.attrs["unit"] == "1" and field.u.attrs["long_name"] == "hidden state"
root = xarray.open_dataset(path, engine="h5netcdf")
assert np.array_equal(root.depth, [0.5, 1, 1.5, 2]) and root.depth.attrs["unit"] == "layer"
assert np.array_equal(root.time, [0, 0.25, 0.5])
assert root.token.dtype.kind == root.token_x.dtype.kind == "i"
assert root.token_x.dims == ("token",)
assert root.attrs["status"] == "done" and root.attrs["deck"] == "κ = ½\n"
rate = xarray.open_dataset(path, engine="h5netcdf", group="history").rate
assert rate.dims == ("step", "depth") and rate.shape == (TIMES, DEPTHS)
query = xarray.open_dataset(path, engine="h5netcdf", group="model/layers/1").W_Q
assert query.shape == (4, 4) and len(set(query.dims)) == 2
words = xarray.open_dataset(path, engine="h5netcdf", group="model/embedding").vocabulary
assert [word.decode() for word in words.values] == ["the", "naïve", ""], words.values

# Each dimension of each dataset has a scale, and the scale is at the root.
with h5py.File(path) as file:
    def has_scales(name, item):
        if isinstance(item, h5py.Dataset) and not h5py.h5ds.is_scale(item.id):
            assert all(len(dim) == 1 and dim[0].parent.name == "/" for dim in item.dims), name
    file.visititems(has_scales)
    assert list(file["model/embedding/vocabulary"].asstr()) == ["the", "naïve", ""]

# XDMF: each scalar is the hyperslab start, stride, count of the dataset it names, relative to the side-car.
side_car = os.path.splitext(path)[0] + ".xdmf"
steps = xml.parse(side_car).getroot().findall("./Domain/Grid[@CollectionType='Temporal']/Grid")
assert [float(step.find("Time").get("Value")) for step in steps] == [0, 0.25, 0.5]
for time, step in enumerate(steps):
    nodes = tuple(map(int, step.find("Topology").get("Dimensions").split()))
    assert nodes == (DEPTHS, TOKENS_Y, TOKENS_X)
    x, y, z = ([float(word) for word in item.text.split()] for item in step.find("Geometry"))
    assert x == [0, 1, 2, 3, 4] and y == [0, 1, 2] and z == [0.5, 1, 1.5, 2]
    scalars = step.findall("Attribute")
    assert [scalar.get("Name") for scalar in scalars] == [f"u_channel_{c}" for c in SHOWN]
    for channel, scalar in zip(SHOWN, scalars):
        slab, heavy = scalar.findall("./DataItem/DataItem")
        start, stride, count = np.array(slab.text.split(), dtype=int).reshape(3, 5)
        name, dataset = heavy.text.rsplit(":", 1)
        with h5py.File(os.path.join(os.path.dirname(side_car), name)) as file:
            values = file[dataset]
            assert tuple(map(int, heavy.get("Dimensions").split())) == values.shape
            taken = values[tuple(slice(a, a + s * n, s) for a, s, n in zip(start, stride, count))].reshape(nodes)
        assert np.array_equal(taken, expected[time, :, :, SAMPLE, channel].reshape(nodes))

try:
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOXdmf2 import vtkXdmfReader
except ImportError:
    sys.exit(0)
reader = vtkXdmfReader()
reader.SetFileName(side_car)
reader.UpdateInformation()
for time in range(TIMES):
    reader.UpdateTimeStep(0.25 * time)
    grid = reader.GetOutputDataObject(0)
    while grid.IsA("vtkMultiBlockDataSet"):
        grid = grid.GetBlock(0)
    assert grid.GetDimensions() == (TOKENS_X, TOKENS_Y, DEPTHS)
    for channel in SHOWN:
        shown = vtk_to_numpy(grid.GetPointData().GetArray(f"u_channel_{channel}"))
        assert np.array_equal(shown, expected[time, :, :, SAMPLE, channel].ravel())
