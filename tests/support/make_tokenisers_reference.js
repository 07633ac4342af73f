// Records what the published library makes of the sentences of tokenisers_reference.json, with each of its tokenisers.
//
//     npm install tokenizers                                               version 0.23.2 was used
//     NODE_PATH=node_modules node tests/support/make_tokenisers_reference.js [FILE]      default: the file beside this script
//
// The file holds sentences, pairs of their numbers, and small tokenisers, each the contents of a tokenizer.json; they stay as they are. Added to
// each tokeniser, under "recorded":
//     plain      for each sentence its ids without special words around it
//     around     for each sentence the ids in front of these and behind them, with special words
//     text       for each sentence what the ids with special words give back; null: the sentence itself
//     pairs      for each pair its ids and segments, with special words
'use strict';
const fs = require('fs'), path = require('path');
const { Tokenizer } = require('tokenizers');

const file = process.argv[2] || path.join(__dirname, 'tokenisers_reference.json');
const table = JSON.parse(fs.readFileSync(file, 'utf8'));

async function recorded(tokeniser) {
  const found = { plain: [], around: [], text: [], pairs: [] };
  for (const sentence of table.sentences) {
    const plain = (await tokeniser.encode(sentence, null, { addSpecialTokens: false })).getIds();
    const whole = (await tokeniser.encode(sentence, null, { addSpecialTokens: true })).getIds();
    let front = 0;
    while (front + plain.length < whole.length && plain.some((id, place) => id !== whole[front + place])) front += 1;
    if (!plain.length) front = whole.length >> 1;
    const text = await tokeniser.decode(whole, true);
    found.plain.push(plain);
    found.around.push([whole.slice(0, front), whole.slice(front + plain.length)]);
    found.text.push(text === sentence ? null : text);
  }
  for (const [first, second] of table.pairs) {
    const pair = await tokeniser.encode(table.sentences[first], table.sentences[second], { addSpecialTokens: true });
    found.pairs.push([pair.getIds(), pair.getTypeIds()]);
  }
  return found;
}

// Rows of numbers on a line each.
function written(value, depth = 0) {
  if (depth > 3 || value === null || typeof value !== 'object') return JSON.stringify(value);
  const rows = Array.isArray(value) ? value.map(one => written(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}:${written(one, depth + 1)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return `${open}\n${rows.join(',\n')}${close}`;
}

(async () => {
  for (const entry of Object.values(table.tokenisers)) {
    entry.recorded = await recorded(Tokenizer.fromString(JSON.stringify(entry.file)));
  }
  fs.writeFileSync(file, written(table) + '\n');
})();
