// Runs a network of one input `u` and one output `y` in ONNX Runtime, on one thread:
//
//   node onnxruntime_march.js FOLDER MODEL STATE BATCH TOKENS WIDTH REPETITIONS
//
// FOLDER holds node_modules/onnxruntime-node. Prints the version and the median processor time of a run in milliseconds
// as JSON, and writes the result to STATE.result.
'use strict';
const fs = require('fs');
const path = require('path');

const [folder, model, state, ...numbers] = process.argv.slice(2);
const repetitions = Number(numbers.pop());
const dims = numbers.map(Number);
const ort = require(path.resolve(folder, 'node_modules', 'onnxruntime-node'));

async function main() {
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
  });
  const bytes = fs.readFileSync(state);
  const u = new ort.Tensor('float32', new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4), dims);
  const taken = [];
  let y;
  for (let k = 0; k < repetitions + 2; ++k) {
    const start = process.cpuUsage();
    ({ y } = await session.run({ u }));
    const used = process.cpuUsage(start);
    taken.push((used.user + used.system) / 1000);
  }
  const sorted = taken.slice(2).sort((a, b) => a - b);
  fs.writeFileSync(state + '.result', Buffer.from(y.data.buffer, y.data.byteOffset, y.data.byteLength));
  console.log(JSON.stringify({ version: ort.env.versions.node, milliseconds: sorted[Math.floor(sorted.length / 2)] }));
}

main();
