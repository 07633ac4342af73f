// The keys of `evolve`.

#include "drivers/evolve_experiment.hpp"
#include "drivers/model_options.hpp"

namespace fluxformer {

void declare_evolve(Schema& schema) {
  declare_model_options(schema);
  const auto declare = [&](Option option) { schema.declare(std::move(option)); };

  declare(
      {.name = "inflow.source",
       .fallback = std::string("data"),
       .doc = "what flows in at s = 0: embedded samples of data.set, normal noise keyed by index, or nothing",
       .choices = {"data", "noise", "none"}});
  declare({.name = "inflow.samples", .fallback = 1L, .doc = "samples solved side by side", .minimum = 1});
  declare({.name = "inflow.first", .fallback = 0L, .doc = "index of the first sample", .minimum = 0});
  declare({.name = "inflow.every",
           .fallback = 0.0,
           .doc = "streaming: the next samples flow in after this time; 0: the inflow is constant",
           .unit = "time",
           .minimum = 0});

  declare({.name = "data.set",
           .fallback = std::string("digits"),
           .doc = "digits is built in, mnist is read from files",
           .choices = {"digits", "mnist"}});
  declare({.name = "data.directory", .fallback = std::string(), .doc = "folder of the data files"});
  declare({.name = "data.split",
           .fallback = std::string("test"),
           .doc = "which part of the data",
           .choices = {"train", "test"}});
  declare({.name = "data.tokens",
           .fallback = std::string("patches"),
           .doc = "an image as 7x7 patches of 4x4 pixels, 28 rows, or 28x28 pixels",
           .choices = {"patches", "rows", "pixels"}});

  declare({.name = "start.state",
           .fallback = std::string("zero"),
           .doc = "u at t = 0: zero; the inflow in every cell; the inflow with noise; points on the unit "
                  "sphere (equiangular: "
                  "all pairs have the inner product start.gamma); a cosine mode over tokens; quantiles of a "
                  "normal law",
           .choices = {"zero", "inflow", "noise", "equiangular", "sphere", "cosine", "quantiles"}});
  declare({.name = "start.gamma",
           .fallback = 0.0,
           .doc = "inner product of equiangular points",
           .minimum = -1,
           .maximum = 1});
  declare({.name = "start.mode",
           .fallback = 1L,
           .doc = "wave number k of the cosine mode cos(pi k (j + 1/2) / n)",
           .minimum = 0});
  declare({.name = "start.scale",
           .fallback = 1.0,
           .doc = "amplitude of the start; standard deviation of noise and quantiles"});

  declare({.name = "evolve.method",
           .fallback = std::string("ssp"),
           .doc = "time integrator (PETSc TS)",
           .choices = {"ssp", "rk", "euler", "arkimex"}});
  declare({.name = "evolve.variant",
           .fallback = std::string(),
           .doc = "PETSc's name within the method: ssp rks2 (default), rks3, rk104; rk 4, 3bs, 5f, ...; "
                  "arkimex 3, 4, ..."});
  declare({.name = "evolve.dt",
           .fallback = 0.0,
           .doc = "step; 0: from evolve.cfl",
           .unit = "time",
           .minimum = 0});
  declare({.name = "evolve.cfl",
           .fallback = 0.5,
           .doc = "step as a multiple of forward Euler's limit (1 is c dt/h = 1 without diffusion)",
           .minimum = 0,
           .above_minimum = true});
  declare({.name = "evolve.time",
           .fallback = 0.0,
           .doc = "end time; 0: twice the crossing time S/c",
           .unit = "time",
           .minimum = 0});
  declare({.name = "evolve.stop",
           .fallback = std::string("time"),
           .doc = "at the end time, or earlier if steady",
           .choices = {"time", "steady"}});
  declare({.name = "evolve.steady",
           .fallback = 1e-6,
           .doc = "steady: largest |du/dt| relative to the largest |u|",
           .unit = "1/time",
           .minimum = 0,
           .above_minimum = true});
  declare({.name = "evolve.tolerance",
           .fallback = 0.0,
           .doc = "error-controlled steps (rk, arkimex), absolute and relative; 0: fixed steps",
           .minimum = 0});
  declare({.name = "evolve.max_norm",
           .fallback = 1e8,
           .doc = "a larger |u| anywhere ends the run with exit code 3",
           .minimum = 0,
           .above_minimum = true});

  declare(
      {.name = "front.threshold",
       .fallback = 0.05,
       .doc =
           "the front has arrived when |u - u*| <= threshold |u*| stays true; 0: no reference u* is computed",
       .minimum = 0,
       .maximum = 1});

  declare({.name = "output.file",
           .fallback = std::string("evolve.h5"),
           .doc = "written as <file>.part, renamed when complete"});
  declare({.name = "output.overwrite", .fallback = false, .doc = "an existing file is refused otherwise"});
  declare({.name = "output.every",
           .fallback = 0.0,
           .doc = "time between stored fields; 0: start and end only",
           .unit = "time",
           .minimum = 0});
  declare({.name = "output.fields",
           .fallback = std::string("u"),
           .doc = "what is stored over depth and tokens",
           .choices = {"u", "none"}});
  declare({.name = "output.depth_stride",
           .fallback = 1L,
           .doc = "store every so many depth cells",
           .unit = "cells",
           .minimum = 1});
  declare({.name = "output.channel_stride",
           .fallback = 1L,
           .doc = "store every so many channels",
           .unit = "channels",
           .minimum = 1});
  declare({.name = "output.compression",
           .fallback = 0L,
           .doc = "deflate level of fields",
           .minimum = 0,
           .maximum = 9});
  declare({.name = "output.history",
           .fallback = 1L,
           .doc = "steps between lines of the history",
           .unit = "steps",
           .minimum = 1});
  declare({.name = "output.attention",
           .fallback = false,
           .doc = "store the attention of every layer and head at the end"});
  declare({.name = "output.model", .fallback = true, .doc = "store the weights under /model"});

  declare({.name = "run.seed", .fallback = 1L, .doc = "of data and noise", .minimum = 0});
  declare({.name = "run.time_limit",
           .fallback = 0.0,
           .doc = "wall time after which the run checkpoints and ends; 0: none",
           .unit = "s",
           .minimum = 0});

  declare({.name = "checkpoint.every",
           .fallback = 0.0,
           .doc = "time between checkpoints; 0: only when stopped",
           .unit = "time",
           .minimum = 0});
  declare({.name = "checkpoint.restart",
           .fallback = std::string("no"),
           .doc = "no; auto: continue from the newest checkpoint beside output.file if there is one; or a "
                  "checkpoint file"});
}

}  // namespace fluxformer
